// The part of ONNX Runtime's C++ interface that our example uses, over the C functions of the library in the Python package,
// which comes without headers. A function is found by its place in the table of the C interface, which never changes.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct OrtApiBase {
    void* const* (*get_api)(uint32_t version);
    const char* (*get_version)();
};
extern "C" const OrtApiBase* OrtGetApiBase();
enum OrtAllocatorType { OrtArenaAllocator = 1 };
enum OrtMemType { OrtMemTypeDefault = 0 };

namespace Ort {
template <typename... Arguments>
void call(int place, Arguments... arguments) {
    void* const* table = OrtGetApiBase()->get_api(17);
    void* status = reinterpret_cast<void* (*)(Arguments...)>(table[place])(arguments...);
    if (status == nullptr) return;
    std::fprintf(stderr, "%s\n", reinterpret_cast<const char* (*)(void*)>(table[2])(status));
    std::exit(1);
}

struct Handle {
    void* pointer = nullptr;
};
struct Env : Handle {
    Env() { call(3, 3, "example", &pointer); }
};
struct SessionOptions : Handle {
    SessionOptions() { call(10, &pointer); }
};
struct RunOptions : Handle {};
struct MemoryInfo : Handle {
    static MemoryInfo CreateCpu(OrtAllocatorType allocator, OrtMemType kind) {
        MemoryInfo info;
        call(69, static_cast<int>(allocator), static_cast<int>(kind), &info.pointer);
        return info;
    }
};
struct Value : Handle {
    template <typename T>
    static Value CreateTensor(const MemoryInfo& memory, T* data, size_t count, const int64_t* shape, size_t axes) {
        Value value;
        call(49, memory.pointer, static_cast<void*>(data), count * sizeof(T), shape, axes, 1, &value.pointer);
        return value;
    }
    template <typename T>
    const T* GetTensorData() const {
        void* data;
        call(51, pointer, &data);
        return static_cast<const T*>(data);
    }
};
struct Session : Handle {
    Session(const Env& environment, const char* path, const SessionOptions& options) {
        call(7, environment.pointer, path, options.pointer, &pointer);
    }
    std::vector<Value> Run(const RunOptions&, const char* const* inputs, const Value* values, size_t count,
                           const char* const* outputs, size_t output_count) {
        std::vector<void*> given, made(output_count, nullptr);
        for (size_t index = 0; index < count; ++index) given.push_back(values[index].pointer);
        call(9, pointer, static_cast<void*>(nullptr), inputs, static_cast<void* const*>(given.data()), count, outputs,
             output_count, made.data());
        std::vector<Value> results(output_count);
        for (size_t index = 0; index < output_count; ++index) results[index].pointer = made[index];
        return results;
    }
};
}  // namespace Ort
