// What a program written by Didyma needs of CUDA: the driver API, as libcuda.so.1 exports it.
// No CUDA toolkit is needed to compile this.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace didyma {

using Address = unsigned long long;  // CUdeviceptr

// What does not fit: the code, the place, what was got and is wanted.
struct Refused : std::runtime_error {
    Refused(const std::string &code, const std::string &where, const std::string &got,
            const std::string &want)
        : std::runtime_error(code + " at `" + where + "`\n  got:  " + got + "\n  want: " + want) {}
};

inline int64_t within(const char *name, int64_t value, int64_t lo, int64_t hi) {
    if (value < lo || value > hi)
        throw Refused("dim-out-of-range", name, std::to_string(value),
                      std::to_string(lo) + " to " + std::to_string(hi));
    return value;
}

inline void equal(int64_t a, int64_t b, const char *message) {
    if (a != b)
        throw Refused("assertion", message, std::to_string(a) + " and " + std::to_string(b),
                      "equal sizes");
}

inline std::vector<char> bytes_of(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw Refused("unreadable-file", path, "no file that can be read", "a file");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The least bucket that holds a size.
inline int64_t bucket(const std::string &name, int64_t size, const std::vector<int64_t> &row) {
    for (const int64_t wide : row)
        if (wide >= size) return wide;
    throw Refused("dim-out-of-range", name, std::to_string(size),
                  "at most " + std::to_string(row.back()) + ", the last bucket");
}

// Copy an array of one shape between bytes of that shape and bytes of a larger one.
inline void rows(const char *from, char *to, const std::vector<int64_t> &shape,
                 const std::vector<int64_t> &source, const std::vector<int64_t> &target,
                 int64_t bytes, size_t axis = 0) {
    if (axis == shape.size()) {
        std::memcpy(to, from, size_t(bytes));
        return;
    }
    int64_t in = bytes, out = bytes;
    for (size_t i = axis + 1; i < shape.size(); ++i) in *= source[i], out *= target[i];
    for (int64_t i = 0; i < shape[axis]; ++i)
        rows(from + i * in, to + i * out, shape, source, target, bytes, axis + 1);
}

inline size_t volume(const std::vector<int64_t> &shape, int64_t bytes) {
    for (const int64_t n : shape) bytes *= n;
    return size_t(bytes);
}

// An array with zeros behind its elements; `bytes` are those of an element.
inline std::vector<char> filled(const std::vector<char> &data, const std::vector<int64_t> &shape,
                                const std::vector<int64_t> &wide, int64_t bytes) {
    std::vector<char> out(volume(wide, bytes));
    if (volume(shape, bytes)) rows(data.data(), out.data(), shape, shape, wide, bytes);
    return out;
}

// The first elements of each axis of an array.
inline std::vector<char> cut(const std::vector<char> &data, const std::vector<int64_t> &shape,
                             const std::vector<int64_t> &wide, int64_t bytes) {
    std::vector<char> out(volume(shape, bytes));
    if (!out.empty()) rows(data.data(), out.data(), shape, wide, shape, bytes);
    return out;
}

// The SHA-256 of bytes in hexadecimal digits, as FIPS 180-4 defines it.
inline std::string sha256(const std::vector<char> &data) {
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2};
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const auto turn = [](uint32_t x, int n) { return x >> n | x << (32 - n); };
    const size_t blocks = (data.size() + 9 + 63) / 64;
    const auto byte = [&](size_t i) -> uint32_t {
        if (i < data.size()) return uint8_t(data[i]);
        if (i == data.size()) return 0x80;
        const size_t left = blocks * 64 - 1 - i;  // the last eight bytes count the bits
        return left < 8 ? uint8_t(uint64_t(data.size()) * 8 >> 8 * left) : 0;
    };
    for (size_t b = 0; b < blocks; ++b) {
        uint32_t w[64], s[8];
        for (size_t i = 0; i < 16; ++i) {
            const size_t at = 64 * b + 4 * i;
            w[i] = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
        }
        for (size_t i = 16; i < 64; ++i) {
            const uint32_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[i - 7] +
                   (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
        }
        for (int i = 0; i < 8; ++i) s[i] = h[i];
        for (size_t i = 0; i < 64; ++i) {
            const uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
                                 ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
            const uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
                                 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            for (int j = 7; j > 0; --j) s[j] = s[j - 1];
            s[4] += one;
            s[0] = one + two;
        }
        for (int i = 0; i < 8; ++i) h[i] += s[i];
    }
    std::string digits;
    for (const uint32_t word : h)
        for (int n = 28; n >= 0; n -= 4) digits += "0123456789abcdef"[word >> n & 15];
    return digits;
}

// The bytes of a file of this SHA-256.
inline std::vector<char> checked(const std::string &path, const std::string &digest) {
    auto data = bytes_of(path);
    const auto got = sha256(data);
    if (got != digest) throw Refused("hash-mismatch", path, "sha256 " + got, "sha256 " + digest);
    return data;
}

// A buffer by its number, the elements before an array, its extents, its steps, and rows of a box;
// of images also their count and step, and along both axes lower and upper corners, and strides.
using Described = std::array<int64_t, 16>;

struct alignas(64) TensorMap {
    uint64_t words[16];
};

// The driver, with the context of the first device made current.
class Driver {
  public:
    Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
        if (!library_) throw Refused("engine-missing", "cuda", dlerror(), "NVIDIA's driver");
        must(find<int(unsigned)>("cuInit")(0), "cuInit");
        must(find<int(int *, int)>("cuDeviceGet")(&device_, 0), "cuDeviceGet");
        void *context = nullptr;
        must(find<int(void **, int)>("cuDevicePrimaryCtxRetain")(&context, device_),
             "cuDevicePrimaryCtxRetain");
        must(find<int(void *)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
        allocate_ = find<int(Address *, size_t)>("cuMemAlloc_v2");
        free_ = find<int(Address)>("cuMemFree_v2");
        to_device_ = find<int(Address, const void *, size_t)>("cuMemcpyHtoD_v2");
        to_host_ = find<int(void *, Address, size_t)>("cuMemcpyDtoH_v2");
        copy_ = find<int(Address, Address, size_t)>("cuMemcpyDtoD_v2");
        launch_ = find<Launch>("cuLaunchKernel");
    }

    // Code for sm_90a runs on devices of exactly that capability, code for sm_90 also on later
    // ones of the same major number.
    void require(int major, int minor, bool exact) const {
        int has[2] = {0, 0};
        auto attribute = find<int(int *, int, int)>("cuDeviceGetAttribute");
        for (int i = 0; i < 2; ++i)
            must(attribute(&has[i], 75 + i, device_), "cuDeviceGetAttribute");
        if (has[0] != major || (exact ? has[1] != minor : has[1] < minor))
            throw Refused("target-lacks", "device 0",
                          "compute capability " + std::to_string(has[0]) + "." +
                              std::to_string(has[1]),
                          std::to_string(major) + "." + std::to_string(minor));
    }

    void *module(const std::vector<char> &code) const {
        void *found = nullptr;
        must(find<int(void **, const void *)>("cuModuleLoadData")(&found, code.data()),
             "cuModuleLoadData");
        return found;
    }

    // A kernel whose launches ask for so many bytes of shared memory.
    void *function(void *module, const char *name, unsigned shared) const {
        void *found = nullptr;
        must(find<int(void **, void *, const char *)>("cuModuleGetFunction")(&found, module, name),
             name);
        const int most = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if (shared)
            must(find<int(void *, int, int)>("cuFuncSetAttribute")(found, most, int(shared)), name);
        return found;
    }

    Address allocate(size_t nbytes) const {
        Address found = 0;
        must(allocate_(&found, nbytes ? nbytes : 1), "cuMemAlloc");
        return found;
    }

    void free(Address at) const noexcept { free_(at); }

    void upload(Address at, const void *data, size_t nbytes) const {
        if (nbytes) must(to_device_(at, data, nbytes), "cuMemcpyHtoD");
    }

    void download(void *data, Address at, size_t nbytes) const {
        if (nbytes) must(to_host_(data, at, nbytes), "cuMemcpyDtoH");
    }

    void copy(Address target, Address source, size_t nbytes) const {
        if (nbytes) must(copy_(target, source, nbytes), "cuMemcpyDtoD");
    }

    // Arguments are words of eight bytes; a grid without blocks is not launched.  Behind the first
    // words, which are `buffers`, come tensor maps.
    void launch(void *function, const int64_t (&grid)[3], const unsigned (&block)[3],
                unsigned shared, std::vector<uint64_t> words, size_t buffers = 0,
                const std::vector<Described> &maps = {}) const {
        if (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0) return;
        std::vector<void *> args, described;
        for (auto &word : words) args.push_back(&word);
        std::vector<TensorMap> encoded;
        for (const auto &map : maps) encoded.push_back(tensor_map(words[size_t(map[0])], map));
        for (auto &map : encoded) described.push_back(&map);
        args.insert(args.begin() + std::ptrdiff_t(buffers), described.begin(), described.end());
        must(launch_(function, unsigned(grid[0]), unsigned(grid[1]), unsigned(grid[2]), block[0],
                     block[1], block[2], shared, nullptr, args.data(), nullptr),
             "cuLaunchKernel");
    }

  private:
    using Launch = int(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       void *, void **, void **);

    using Encode = int(void *, int, unsigned, Address, const uint64_t *, const uint64_t *,
                       const unsigned *, const unsigned *, int, int, int, int);

    using EncodeImages = int(void *, int, unsigned, Address, const uint64_t *, const uint64_t *,
                             const int *, const int *, unsigned, unsigned, const unsigned *, int,
                             int, int, int);

    // The map of images, for boxes of 64 channels of some pixels.
    TensorMap image_map(Address at, const Described &d) const {
        TensorMap made;
        const uint64_t extents[4] = {uint64_t(d[2]), uint64_t(d[3]), uint64_t(d[4]),
                                     uint64_t(d[8])};
        const uint64_t steps[3] = {uint64_t(2 * d[5]), uint64_t(2 * d[6]), uint64_t(2 * d[9])};
        const int lower[2] = {int(d[10]), int(d[11])}, upper[2] = {int(d[12]), int(d[13])};
        const unsigned strides[4] = {1, unsigned(d[14]), unsigned(d[15]), 1};
        const int swizzle = 3, promotion = steps[0] % 128 ? 0 : 3;
        const char *name = "cuTensorMapEncodeIm2col";
        must(find<EncodeImages>(name)(&made, 1, 4, at + Address(2 * d[1]), extents, steps, lower,
                                      upper, 64, unsigned(d[7]), strides, 0, swizzle, promotion,
                                      0),
             name);
        return made;
    }

    // The map of an array of words of two bytes for boxes of 64 by some rows, whose pieces of 16
    // bytes lie exchanged within 128.
    TensorMap tensor_map(Address at, const Described &d) const {
        if (d[8]) return image_map(at, d);
        TensorMap made;
        const uint64_t extents[3] = {uint64_t(d[2]), uint64_t(d[3]), uint64_t(d[4])};
        const uint64_t steps[2] = {uint64_t(2 * d[5]), uint64_t(2 * d[6])};
        const unsigned box[3] = {64, unsigned(d[7]), 1}, ones[3] = {1, 1, 1};
        const int swizzle = 3, promotion = steps[0] % 128 ? 0 : 3;
        const char *name = "cuTensorMapEncodeTiled";
        must(find<Encode>(name)(&made, 1, 3, at + Address(2 * d[1]), extents, steps, box, ones, 0,
                                swizzle, promotion, 0),
             name);
        return made;
    }

    template <class F> F *find(const char *name) const {
        void *found = dlsym(library_, name);
        if (!found) throw Refused("engine-missing", name, "a driver without it", "a later driver");
        return reinterpret_cast<F *>(found);
    }

    void must(int status, const char *what) const {
        if (!status) return;
        const char *name = nullptr;
        find<int(int, const char **)>("cuGetErrorName")(status, &name);
        throw Refused("launch-failed", what, name ? name : std::to_string(status), "success");
    }

    void *library_;
    int device_ = 0;
    int (*allocate_)(Address *, size_t) = nullptr;
    int (*free_)(Address) = nullptr;
    int (*to_device_)(Address, const void *, size_t) = nullptr;
    int (*to_host_)(void *, Address, size_t) = nullptr;
    int (*copy_)(Address, Address, size_t) = nullptr;
    Launch *launch_ = nullptr;
};

// Bytes on the device, freed when the last buffer in them is gone.
struct Allocation {
    Allocation(const Driver &driver, size_t nbytes) : driver(driver), at(driver.allocate(nbytes)) {}
    Allocation(const Allocation &) = delete;
    Allocation &operator=(const Allocation &) = delete;
    ~Allocation() { driver.free(at); }

    const Driver &driver;
    Address at;
};

struct Buffer {
    std::shared_ptr<Allocation> owner;
    Address at = 0;

    Buffer view(int64_t offset) const { return {owner, at + Address(offset)}; }
    Buffer on(int64_t offset) const { return {owner, owner->at + Address(offset)}; }
};

// The functions of a module of kernels.
class Kernels {
  public:
    Kernels(const Driver &driver, const std::vector<char> &code)
        : driver(driver), module_(code.empty() ? nullptr : driver.module(code)) {}

    void *operator()(const char *name, unsigned shared) {
        auto &found = functions_[name];
        if (!found) found = driver.function(module_, name, shared);
        return found;
    }

    Buffer allocate(int64_t nbytes) const {
        auto owner = std::make_shared<Allocation>(driver, size_t(nbytes));
        const Address at = owner->at;
        return {std::move(owner), at};
    }

    Buffer upload(const char *data, int64_t nbytes) const {
        Buffer made = allocate(nbytes);
        driver.upload(made.at, data, size_t(nbytes));
        return made;
    }

    template <class T> T read(const Buffer &b) const {
        T found{};
        driver.download(&found, b.at, sizeof found);
        return found;
    }

    const Driver &driver;

  private:
    void *module_;
    std::map<std::string, void *> functions_;
};

}  // namespace didyma
