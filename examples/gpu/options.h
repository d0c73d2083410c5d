/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h: arguments of the programs; C++17.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

struct Option {
    const char *name;
    uint32_t *value, least, most;
};

/* Ends the process with status 2. */
[[noreturn]] inline void refuse_arguments(const std::string &sentence)
{
    std::fprintf(stderr, "%s\n", sentence.c_str());
    std::exit(2);
}

/* Sets the values of the options that are given, and returns the other arguments. */
inline std::vector<const char *> parse_arguments(int argc, char **argv, const std::vector<Option> &options)
{
    std::vector<const char *> others;
    for (int index = 1; index < argc; ++index) {
        const std::string name = argv[index];
        if (name.rfind("--", 0) != 0) {
            others.push_back(argv[index]);
            continue;
        }
        const Option *found = nullptr;
        std::string names;
        for (const Option &option : options) {
            if (name == option.name)
                found = &option;
            names += (names.empty() ? "" : &option == &options.back() ? " and " : ", ") + std::string(option.name);
        }
        if (!found)
            refuse_arguments("There is no option " + name + "; the options are " + names);
        char *end = nullptr;
        const char *text = index + 1 < argc ? argv[++index] : "";
        const unsigned long value = std::strtoul(text, &end, 10);
        const bool digits = *text >= '0' && *text <= '9' && !*end;
        if (!digits || value > found->most || value < found->least)
            refuse_arguments(name + " must be a number from " + std::to_string(found->least) + " to "
                             + std::to_string(found->most) + ", not '" + text + "'");
        *found->value = uint32_t(value);
    }
    return others;
}

#endif
