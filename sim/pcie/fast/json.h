// SPDX-License-Identifier: Apache-2.0
// Text of JSON.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

// Appends as printf writes, up to 500 characters.
__attribute__((format(printf, 2, 3))) inline void append(std::string& text, const char* format, ...) {
    char made[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(made, sizeof made, format, arguments);
    va_end(arguments);
    text += made;
}

inline std::string quoted(const std::string& text) {
    std::string made = "\"";
    for (const char letter : text) {
        if (letter == '"' || letter == '\\') made += '\\';
        made += letter;
    }
    return made + '"';
}
