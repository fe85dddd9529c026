// Video files in the browser: WebCodecs decodes and encodes, mediabunny reads and writes the containers.

let library = null;
const load = async () => (library ??= await import("./vendor/mediabunny.min.mjs"));

export async function openClip(file) {
  const {ALL_FORMATS, BlobSource, CanvasSink, Input} = await load();
  const input = new Input({source: new BlobSource(file), formats: ALL_FORMATS});
  const track = await input.getPrimaryVideoTrack();
  if (!track) throw new Error("This file has no video.");
  if (!await track.canDecode()) throw new Error(`This browser cannot decode ${await track.getCodec() || "this video"}.`);
  const [width, height] = [await track.getDisplayWidth(), await track.getDisplayHeight()];
  const seconds = await track.computeDuration();
  const {averagePacketRate} = await track.computePacketStats(60);
  const start = await track.getFirstTimestamp();
  return {
    width, height, seconds, rate: averagePacketRate, format: await track.getCodec(),
    sound: Boolean(await input.getPrimaryAudioTrack()),
    async frame(at, size) {
      const found = await new CanvasSink(track, {...size, fit: "fill"}).getCanvas(start + at);
      if (!found) throw new Error("There is no frame at this moment.");
      return found.canvas;
    },
    write: (size, restore) => write(input, track, size, restore),
  };
}

async function write(input, track, size, restore) {
  const {BufferTarget, CanvasSink, CanvasSource, EncodedAudioPacketSource, EncodedPacketSink, Mp4OutputFormat, Output,
    QUALITY_HIGH, WebMOutputFormat, getFirstEncodableVideoCodec} = await load();
  const codec = await getFirstEncodableVideoCodec(["avc", "vp9", "vp8", "av1"], size);
  if (!codec) throw new Error("This browser cannot encode video.");
  const format = codec === "avc" ? new Mp4OutputFormat({fastStart: "in-memory"}) : new WebMOutputFormat();
  const target = new BufferTarget();
  const output = new Output({format, target});
  const canvas = new OffscreenCanvas(size.width, size.height);
  const context = canvas.getContext("2d");
  const frames = new CanvasSource(canvas, {codec, bitrate: QUALITY_HIGH, keyFrameInterval: 2});
  output.addVideoTrack(frames);
  const sound = await soundSource(input, format, {EncodedAudioPacketSource, EncodedPacketSink});
  if (sound) output.addAudioTrack(sound.source);
  await output.start();
  try {
    for await (const {canvas: given, timestamp, duration} of new CanvasSink(track, {...size, fit: "fill", poolSize: 2}).canvases()) {
      context.drawImage(await restore(given), 0, 0);
      await frames.add(Math.max(0, timestamp), duration);
    }
    if (sound) await sound.copy();
    await output.finalize();
  } catch (error) {
    await output.cancel();
    throw error;
  }
  const type = codec === "avc" ? "video/mp4" : "video/webm";
  return {blob: new Blob([target.buffer], {type}), suffix: codec === "avc" ? ".mp4" : ".webm"};
}

async function soundSource(input, format, {EncodedAudioPacketSource, EncodedPacketSink}) {
  const track = await input.getPrimaryAudioTrack();
  const codec = track && await track.getCodec();
  if (!codec || !format.getSupportedAudioCodecs().includes(codec)) return null;
  const source = new EncodedAudioPacketSource(codec);
  return {
    source,
    async copy() {
      const meta = {decoderConfig: await track.getDecoderConfig()};
      for await (const packet of new EncodedPacketSink(track).packets()) {
        if (packet.timestamp >= 0) await source.add(packet, meta);
      }
    },
  };
}
