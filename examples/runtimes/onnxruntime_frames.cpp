// Dehaze raw RGB frames with ONNX Runtime: planar float32 in [0, 1] from stdin to stdout, frame by frame.
//   libranet export --size 1920x1080 net.onnx
//   g++ -std=c++17 onnxruntime_frames.cpp -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o dehaze
//   ./dehaze net.onnx 1920 1080 < frames.f32 > clear.f32
#include <onnxruntime_cxx_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int, char** arguments) {
    const int64_t width = std::atoll(arguments[2]), height = std::atoll(arguments[3]);
    const std::vector<int64_t> shape{1, 3, height, width};
    Ort::Env environment;
    Ort::Session session(environment, arguments[1], Ort::SessionOptions());
    const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    const char *inputs[] = {"frame"}, *outputs[] = {"image"};
    std::vector<float> frame(3 * height * width);
    while (std::fread(frame.data(), sizeof(float), frame.size(), stdin) == frame.size()) {
        Ort::Value tensor = Ort::Value::CreateTensor<float>(memory, frame.data(), frame.size(), shape.data(), 4);
        auto clear = session.Run(Ort::RunOptions(), inputs, &tensor, 1, outputs, 1);
        std::fwrite(clear[0].GetTensorData<float>(), sizeof(float), frame.size(), stdout);
    }
}
