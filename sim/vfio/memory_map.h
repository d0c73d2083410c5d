// SPDX-License-Identifier: Apache-2.0
// The I/O addresses that a client has made reachable: ranges of files, with rights.
//
// All ranges lie in a few files, while with an IOMMU each page is a range: a file is mapped once, and its descriptor is
// not kept.
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>

#include "guarded_copy.h"

constexpr uint32_t kRightRead = 1, kRightWrite = 2;  // of the device, as in VFIO_USER_DMA_MAP

// A request of the client that breaks a rule.
class Refusal : public std::runtime_error {
public:
    const int number;
    Refusal(int error, const std::string& sentence) : std::runtime_error(sentence), number(error) {}
};

class MemoryMap {
public:
    static constexpr uint64_t kPage = 4096;
    static constexpr size_t kRanges = size_t{1} << 20;

    // Makes a range reachable. Without a descriptor (-1) it is known, and no access to it is possible.
    void map(uint64_t address, uint64_t size, uint32_t rights, int fd, uint64_t offset) {
        if (!size || address % kPage || size % kPage || address + size - 1 < address)
            throw Refusal(EINVAL, "A range must consist of pages of 4096 bytes, not " + span(address, size) + ".");
        if (rights & ~(kRightRead | kRightWrite))
            throw Refusal(EINVAL, "Rights of a range must be 0 to 3, not " + std::to_string(rights) + ".");
        if (ranges_.size() >= kRanges)
            throw Refusal(ENOSPC, "There are " + std::to_string(kRanges) + " ranges already.");
        const auto next = ranges_.upper_bound(address);
        if ((next != ranges_.end() && next->first <= address + size - 1) ||
            (next != ranges_.begin() && std::prev(next)->second.last >= address))
            throw Refusal(EEXIST, "The range " + span(address, size) + " overlaps another one.");
        Range range{address + size - 1, fd < 0 ? 0 : rights, nullptr, offset};
        if (fd >= 0) range.file = file(fd, offset, size, rights);
        ranges_.emplace(address, std::move(range));
    }

    // Every range must be inside the span, or outside. Returns the bytes of those inside.
    uint64_t unmap(uint64_t address, uint64_t size) {
        if (!size || address + size - 1 < address)
            throw Refusal(EINVAL, "There is no span " + span(address, size) + " to unmap.");
        const uint64_t last = address + size - 1;
        auto first = ranges_.lower_bound(address), end = first;
        uint64_t bytes = 0;
        if (first != ranges_.begin() && std::prev(first)->second.last >= address)
            throw Refusal(EINVAL, "The span " + span(address, size) + " begins inside a range.");
        for (; end != ranges_.end() && end->first <= last; ++end) {
            if (end->second.last > last)
                throw Refusal(EINVAL, "The span " + span(address, size) + " ends inside a range.");
            bytes += end->second.last - end->first + 1;
        }
        ranges_.erase(first, end);
        forget_files();
        return bytes;
    }

    void clear() {
        ranges_.clear();
        forget_files();
    }

    size_t size() const { return ranges_.size(); }

    // False, and nothing has been copied, unless the device has the right to all bytes. If the owner of a file
    // truncates it, some may have been.
    bool read(uint64_t address, size_t length, uint8_t* data) {
        return each(address, length, kRightRead, [](uint8_t*, size_t, size_t) { return true; }) &&
               each(address, length, kRightRead, [&](uint8_t* at, size_t done, size_t run) {
                   return guarded::copy(data + done, at, run);
               });
    }
    bool write(uint64_t address, size_t length, const uint8_t* data) {
        return each(address, length, kRightWrite, [](uint8_t*, size_t, size_t) { return true; }) &&
               each(address, length, kRightWrite, [&](uint8_t* at, size_t done, size_t run) {
                   return guarded::copy(at, data + done, run);
               });
    }
    bool mapped(uint64_t address) {
        return each(address, 1, 0, [](uint8_t*, size_t, size_t) { return true; });
    }

private:
    struct File {
        uint8_t* bytes;
        uint64_t length;
        bool writable;
        File(uint8_t* at, uint64_t size, bool may_write) : bytes(at), length(size), writable(may_write) {}
        File(const File&) = delete;
        File& operator=(const File&) = delete;
        ~File() { munmap(bytes, length); }
    };
    struct Range {
        uint64_t last;
        uint32_t rights;
        std::shared_ptr<File> file;
        uint64_t offset;
    };
    using Key = std::pair<uint64_t, uint64_t>;  // device and inode

    static std::string span(uint64_t address, uint64_t size) {
        char text[64];
        std::snprintf(text, sizeof text, "%#llx + %#llx", static_cast<unsigned long long>(address),
                      static_cast<unsigned long long>(size));
        return text;
    }

    // Calls `visit(pointer, offset in the access, length)` for each range of an access while it returns true.
    template <class Visit>
    bool each(uint64_t address, size_t length, uint32_t right, Visit visit) {
        for (size_t done = 0; done < length;) {
            const uint64_t at = address + done;
            auto found = ranges_.upper_bound(at);
            if (at < address || found == ranges_.begin()) return false;
            --found;
            const Range& range = found->second;
            if (range.last < at || !range.file || (range.rights & right) != right) return false;
            const size_t run = static_cast<size_t>(std::min<uint64_t>(length - done, range.last - at + 1));
            if (!visit(range.file->bytes + range.offset + (at - found->first), done, run)) return false;
            done += run;
        }
        return true;
    }

    std::shared_ptr<File> file(int fd, uint64_t offset, uint64_t size, uint32_t rights) {
        struct stat status;
        if (fstat(fd, &status)) throw Refusal(errno, "The descriptor of a range is invalid.");
        if (!S_ISREG(status.st_mode)) throw Refusal(EINVAL, "The descriptor of a range must be that of a file.");
        const auto length = static_cast<uint64_t>(status.st_size);
        if (offset % kPage || offset > length || size > length - offset)
            throw Refusal(EINVAL, "The file of a range has " + std::to_string(length) + " bytes, not " +
                                      span(offset, size) + ".");
        const bool writable = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
        if (rights & kRightWrite && !writable)
            throw Refusal(EACCES, "A range that the device may write needs a descriptor that may be written.");
        const Key key{status.st_dev, status.st_ino};
        auto known = files_[key].lock();
        if (known && known->length >= offset + size && known->writable >= writable) return known;
        void* bytes = mmap(nullptr, length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
        if (bytes == MAP_FAILED) throw Refusal(errno, "The file of a range cannot be mapped.");
        known = std::make_shared<File>(static_cast<uint8_t*>(bytes), length, writable);
        files_[key] = known;
        return known;
    }

    void forget_files() {
        for (auto at = files_.begin(); at != files_.end();)
            at = at->second.expired() ? files_.erase(at) : std::next(at);
    }

    std::map<uint64_t, Range> ranges_;
    std::map<Key, std::weak_ptr<File>> files_;
};
