// What a program written by Didyma needs of CUDA: the driver API, as libcuda.so.1 exports it.
// No CUDA toolkit is needed to compile this.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
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

    void *function(void *module, const char *name) const {
        void *found = nullptr;
        must(find<int(void **, void *, const char *)>("cuModuleGetFunction")(&found, module, name),
             name);
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

    // Arguments are words of eight bytes; a grid without blocks is not launched.
    void launch(void *function, const int64_t (&grid)[3], const unsigned (&block)[3],
                std::vector<uint64_t> words) const {
        if (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0) return;
        std::vector<void *> args;
        for (auto &word : words) args.push_back(&word);
        must(launch_(function, unsigned(grid[0]), unsigned(grid[1]), unsigned(grid[2]), block[0],
                     block[1], block[2], 0, nullptr, args.data(), nullptr),
             "cuLaunchKernel");
    }

  private:
    using Launch = int(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       void *, void **, void **);

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
    Kernels(const Driver &driver, const std::string &path)
        : driver(driver), module_(driver.module(bytes_of(path))) {}

    void *operator()(const char *name) {
        auto &found = functions_[name];
        if (!found) found = driver.function(module_, name);
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
