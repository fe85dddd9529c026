// Dehaze raw RGB video with ONNX Runtime, by the streaming form: planar float32 in [0, 1] from stdin to stdout.
//   libranet export --streaming --size 1920x1080 net.onnx
//   g++ -std=c++17 onnxruntime_stream.cpp -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o dehaze
//   ./dehaze net.onnx < frames.f32 > clear.f32
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

int main(int, char** arguments) {
    Ort::Env environment;
    Ort::Session session(environment, arguments[1], Ort::SessionOptions());
    Ort::AllocatorWithDefaultOptions allocator;
    const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    std::vector<std::string> inputs, outputs;
    std::map<std::string, std::vector<int64_t>> shapes;
    std::map<std::string, std::vector<float>> held;  // all of the state is zero before the first frame
    for (size_t index = 0; index < session.GetInputCount(); ++index) {
        inputs.push_back(session.GetInputNameAllocated(index, allocator).get());
        const auto info = session.GetInputTypeInfo(index);
        const auto shape = shapes[inputs.back()] = info.GetTensorTypeAndShapeInfo().GetShape();
        size_t count = 1;
        for (int64_t side : shape) count *= side;
        held[inputs.back()].resize(count);
    }
    for (size_t index = 0; index < session.GetOutputCount(); ++index)
        outputs.push_back(session.GetOutputNameAllocated(index, allocator).get());
    std::vector<const char*> input_names, output_names;
    for (const auto& name : inputs) input_names.push_back(name.c_str());
    for (const auto& name : outputs) output_names.push_back(name.c_str());
    const int64_t late = held.count("state_frames") ? shapes["state_frames"][0] : 0;
    std::vector<float> next(held["frame"].size());
    for (int64_t index = 0, due = late; due > 0 || late == 0; ++index) {
        const bool more = std::fread(next.data(), sizeof(float), next.size(), stdin) == next.size();
        if (more) held["frame"] = next;  // after the last frame, that frame again for each one still due
        if (!more && (late == 0 || index == 0)) break;
        if (!more) --due;
        held["reset"] = {index == 0 ? 1.0f : 0.0f};  // 1 at the first frame of each shot
        if (held.count("end")) held["end"] = {more ? 0.0f : 1.0f};
        std::vector<Ort::Value> given;
        for (const auto& name : inputs)
            given.push_back(Ort::Value::CreateTensor<float>(memory, held[name].data(), held[name].size(),
                                                            shapes[name].data(), shapes[name].size()));
        auto made = session.Run(Ort::RunOptions(), input_names.data(), given.data(), given.size(),
                                output_names.data(), output_names.size());
        if (index >= late) std::fwrite(made[0].GetTensorData<float>(), sizeof(float), next.size(), stdout);
        for (size_t place = 1; place < outputs.size(); ++place) {
            auto& state = held["state_" + outputs[place].substr(5)];  // next_past becomes state_past
            const float* data = made[place].GetTensorData<float>();
            std::copy(data, data + state.size(), state.begin());
        }
    }
}
