// A driver that has no GPU: kernels are those of a shared object for the CPU, memory is poisoned
// when it is allocated and freed, and what is wrong ends the process.  Its two devices have memory,
// streams and kernels of their own, which only their own context may use.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Address = unsigned long long;

struct Record {
    uint64_t args, stacks, order, stack, stride, offset;
    uint32_t grid[3], block[3], fault[8];
};

struct Context {
    int device;
};
struct Stream {
    const Context *of;
    bool captured = false;  // of an event: where it was recorded
};
struct Module {
    const Context *of;
    void *library;
};
struct Allocation {
    size_t nbytes;
    const Context *of;
};
struct Function {
    const Context *of;
    void (*entry)(void *);
    int count;
    unsigned shared;  // bytes that its launches may ask for
};

Context contexts[2] = {{0}, {1}};
using Step = std::function<void()>;
std::map<Address, Allocation> live;
std::vector<Step> steps;  // of the graph that is captured
std::set<Stream *> forked;  // streams whose work is captured, and not yet waited for
Stream *capturing;
std::map<std::pair<const Context *, std::string>, Function> functions;
size_t held, peak;
std::vector<const Context *> current;  // the contexts that were made current, the last on top

[[noreturn]] void wrong(const char *what) {
    fprintf(stderr, "fake: %s\n", what);
    _Exit(9);
}

void must_have_context() {
    if (current.empty()) wrong("no context is current");
}

// What holds some bytes; null where nothing does.
const Allocation *holder(Address at, size_t nbytes) {
    auto found = live.upper_bound(at);
    if (found == live.begin()) return nullptr;
    --found;
    bool inside = at + nbytes <= found->first + found->second.nbytes;
    return inside ? &found->second : nullptr;
}

// Demand that a device holds some bytes.
void must_hold(const Context *of, Address at, size_t nbytes) {
    must_have_context();
    const Allocation *found = holder(at, nbytes);
    if (!found) wrong("outside of an allocation");
    if (found->of != of) wrong("memory of another device");
}

void must_be_of_current(const void *stream) {
    must_have_context();
    if (stream && static_cast<const Stream *>(stream)->of != current.back())
        wrong("a stream or an event of another device");
}

void report() { fprintf(stderr, "fake: live %zu peak %zu\n", live.size(), peak); }

}  // namespace

extern "C" {

int cuInit(unsigned) { return atexit(report); }
int cuDeviceGet(int *device, int number) {
    *device = number;
    return number < 2 ? 0 : 101;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &contexts[device];
    return 0;
}
int cuCtxPushCurrent_v2(void *context) {
    current.push_back(static_cast<Context *>(context));
    return 0;
}
int cuCtxSetCurrent(void *context) { return cuCtxPushCurrent_v2(context); }
int cuCtxPopCurrent_v2(void **context) {
    must_have_context();
    *context = const_cast<Context *>(current.back());
    current.pop_back();
    return 0;
}
int cuCtxSynchronize() {
    must_have_context();
    if (capturing) wrong("a wait for the device while a graph is captured");
    return 0;
}
int cuStreamCreate(void **stream, unsigned) {
    must_have_context();
    *stream = new Stream{current.back()};
    return 0;
}
int cuEventCreate(void **event, unsigned) { return cuStreamCreate(event, 0); }
int cuEventRecord(void *event, void *stream) {
    must_be_of_current(event);
    must_be_of_current(stream);
    if (!event) return 400;
    auto on = static_cast<Stream *>(stream);
    static_cast<Stream *>(event)->captured = on && on->captured;
    if (on) forked.erase(on);
    return 0;
}
int cuStreamWaitEvent(void *stream, void *event, unsigned) {
    must_be_of_current(event);
    must_be_of_current(stream);
    if (!event) return 400;
    auto on = static_cast<Stream *>(stream);
    if (static_cast<Stream *>(event)->captured) {
        if (!on) wrong("the default stream waits for what is captured");
        on->captured = true;
        if (on != capturing) forked.insert(on);
    }
    return 0;
}
int cuStreamBeginCapture_v2(void *stream, int mode) {
    must_be_of_current(stream);
    if (!stream || capturing || mode != 2) return 900;
    capturing = static_cast<Stream *>(stream);
    capturing->captured = true;
    return 0;
}
int cuStreamEndCapture(void *stream, void **graph) {
    if (stream != capturing) return 901;
    if (!forked.empty()) wrong("a captured stream that the graph does not wait for");
    *graph = new std::vector<Step>(std::move(steps));
    steps.clear();
    forked.clear();
    capturing->captured = false;
    capturing = nullptr;
    return 0;
}
int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long) {
    *made = new std::vector<Step>(*static_cast<std::vector<Step> *>(graph));
    return 0;
}
int cuGraphDestroy(void *graph) {
    delete static_cast<std::vector<Step> *>(graph);
    return 0;
}
int cuGraphLaunch(void *graph, void *stream) {
    must_be_of_current(stream);
    for (const Step &step : *static_cast<std::vector<Step> *>(graph)) step();
    return 0;
}
int cuStreamSynchronize(void *stream) {
    must_be_of_current(stream);
    return capturing ? 900 : 0;
}
int cuEventElapsedTime(float *milliseconds, void *first, void *last) {
    *milliseconds = 0.5f;
    return first && last ? 0 : 400;
}
int cuEventDestroy_v2(void *event) {
    delete static_cast<Stream *>(event);
    return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
    if (attribute != 8) return 1;
    static_cast<Function *>(function)->shared = unsigned(value);
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    const char *has = getenv("FAKE_CAPABILITY");
    *value = (attribute == 75 ? has[0] : has[2]) - '0';
    return 0;
}
int cuGetErrorName(int, const char **name) {
    *name = "CUDA_ERROR_UNKNOWN";
    return 0;
}

int cuMemAlloc_v2(Address *at, size_t nbytes) {
    must_have_context();
    void *found = aligned_alloc(256, (nbytes + 255) / 256 * 256);
    memset(found, 0xA5, nbytes);
    *at = Address(found);
    live[*at] = {nbytes, current.back()};
    held += nbytes;
    if (held > peak) peak = held;
    return 0;
}
int cuMemFree_v2(Address at) {
    if (!live.count(at)) wrong("freed twice");
    held -= live[at].nbytes;
    memset(reinterpret_cast<void *>(at), 0x5A, live[at].nbytes);
    live.erase(at);  // and never given to anybody again
    return 0;
}
int cuMemcpyHtoD_v2(Address at, const void *data, size_t nbytes) {
    must_have_context();
    must_hold(current.back(), at, nbytes);
    memcpy(reinterpret_cast<void *>(at), data, nbytes);
    return 0;
}
int cuMemcpyDtoH_v2(void *data, Address at, size_t nbytes) {
    must_have_context();
    must_hold(current.back(), at, nbytes);
    memcpy(data, reinterpret_cast<void *>(at), nbytes);
    return 0;
}
int cuMemcpyDtoD_v2(Address target, Address source, size_t nbytes) {
    must_have_context();
    must_hold(current.back(), target, nbytes);
    must_hold(current.back(), source, nbytes);
    memmove(reinterpret_cast<void *>(target), reinterpret_cast<void *>(source), nbytes);
    return 0;
}
int cuMemcpyPeer(Address target, void *to, Address source, void *of, size_t nbytes) {
    must_hold(static_cast<Context *>(to), target, nbytes);
    must_hold(static_cast<Context *>(of), source, nbytes);
    memmove(reinterpret_cast<void *>(target), reinterpret_cast<void *>(source), nbytes);
    return 0;
}

int cuMemcpyHtoDAsync_v2(Address at, const void *data, size_t nbytes, void *stream) {
    must_be_of_current(stream);
    return cuMemcpyHtoD_v2(at, data, nbytes);
}
int cuMemcpyDtoHAsync_v2(void *data, Address at, size_t nbytes, void *stream) {
    must_be_of_current(stream);
    return cuMemcpyDtoH_v2(data, at, nbytes);
}
int cuMemcpyDtoDAsync_v2(Address target, Address source, size_t nbytes, void *stream) {
    must_be_of_current(stream);
    auto copy = [=] { cuMemcpyDtoD_v2(target, source, nbytes); };
    if (stream && static_cast<Stream *>(stream)->captured) steps.push_back(copy);
    else copy();
    return 0;
}

// FAKE_KERNELS is the shared object, and FAKE_COUNTS how many arguments each kernel has.
int cuModuleLoadData(void **module, const void *) {
    must_have_context();
    void *library = dlopen(getenv("FAKE_KERNELS"), RTLD_NOW);
    if (!library) wrong(dlerror());
    *module = new Module{current.back(), library};
    auto bound = reinterpret_cast<const char *(*)()>(dlsym(library, "bound__"));
    void *math = dlopen("libm.so.6", RTLD_NOW);
    std::istringstream names(bound());
    for (std::string name; names >> name;)
        *static_cast<void **>(dlsym(library, ("bound_" + name + "__").c_str())) =
            dlsym(math, name.c_str());
    std::istringstream counts(getenv("FAKE_COUNTS"));
    int count;
    for (std::string name; counts >> name >> count;) {
        void *entry = dlsym(library, ("launch_" + name + "__").c_str());
        if (!entry) wrong("no such kernel");
        functions[{current.back(), name}] = {
            current.back(), reinterpret_cast<void (*)(void *)>(entry), count, 0};
    }
    return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    auto found = functions.find({static_cast<Module *>(module)->of, name});
    if (found == functions.end()) return 500;
    *function = &found->second;
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **) {
    const size_t stack = (1u << 16) + 320;
    static std::vector<char> stacks(1024 * stack + 64);
    const auto f = *static_cast<Function *>(function);
    must_be_of_current(stream);
    if (f.of != current.back()) wrong("a kernel of another device");
    if (shared != f.shared) wrong("other shared memory than was allowed");
    std::vector<uint64_t> words;
    for (int i = 0; i < f.count; ++i) words.push_back(*static_cast<uint64_t *>(params[i]));
    for (uint64_t word : words)
        if (const Allocation *found = holder(word, 0); found && found->of != f.of)
            wrong("a kernel is given memory of another device");
    auto launch = [=]() mutable {
        Record r{uint64_t(words.data()), (uint64_t(stacks.data()) + 63) / 64 * 64, 0, stack, 1, 0,
                 {gx, gy, gz}, {bx, by, bz}, {}};
        f.entry(&r);
        return r.fault[0] ? 700 : 0;
    };
    auto on = static_cast<Stream *>(stream);
    if (capturing && !(on && on->captured)) wrong("a launch beside the graph that is captured");
    if (!capturing) return launch();
    if (on != capturing) forked.insert(on);
    steps.push_back([launch]() mutable { launch(); });
    return 0;
}

}  // extern "C"
