// The part of ONNX Runtime's C++ interface that our examples use, over the C functions of the library in the Python package,
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
struct AllocatorWithDefaultOptions : Handle {
    AllocatorWithDefaultOptions() { call(78, &pointer); }
};
struct AllocatedName {
    char* name = nullptr;
    const char* get() const { return name; }
};
struct TensorTypeAndShapeInfo {
    const void* pointer = nullptr;
    std::vector<int64_t> GetShape() const {
        size_t axes;
        call(61, pointer, &axes);
        std::vector<int64_t> shape(axes);
        call(62, pointer, shape.data(), axes);
        return shape;
    }
};
struct TypeInfo : Handle {
    TensorTypeAndShapeInfo GetTensorTypeAndShapeInfo() const {
        TensorTypeAndShapeInfo info;
        call(55, static_cast<const void*>(pointer), &info.pointer);
        return info;
    }
};
struct Session : Handle {
    Session(const Env& environment, const char* path, const SessionOptions& options) {
        call(7, environment.pointer, path, options.pointer, &pointer);
    }
    size_t GetInputCount() const { return count(30); }
    size_t GetOutputCount() const { return count(31); }
    AllocatedName GetInputNameAllocated(size_t index, const Handle& allocator) const { return name(36, index, allocator); }
    AllocatedName GetOutputNameAllocated(size_t index, const Handle& allocator) const { return name(37, index, allocator); }
    TypeInfo GetInputTypeInfo(size_t index) const {
        TypeInfo info;
        call(33, pointer, index, &info.pointer);
        return info;
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

   private:
    size_t count(int place) const {
        size_t found;
        call(place, pointer, &found);
        return found;
    }
    AllocatedName name(int place, size_t index, const Handle& allocator) const {
        AllocatedName found;
        call(place, pointer, index, allocator.pointer, &found.name);
        return found;
    }
};
}  // namespace Ort
