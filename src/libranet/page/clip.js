// Video files in the browser: WebCodecs decodes and encodes, mediabunny reads and writes the containers. A result goes to
// the browser's own storage on disk, piece by piece, so that a long clip does not lie in memory.

const DAY = 86400e3; // milliseconds
const NAMES = {avc: "H.264", hevc: "HEVC (H.265)", vp8: "VP8", vp9: "VP9", av1: "AV1"};
const PROBES = {avc: "avc1.42001f", hevc: "hvc1.1.6.L93.B0", vp9: "vp09.00.10.08", av1: "av01.0.04M.08"};

let library = null;
const load = async () => (library ??= await import("./vendor/mediabunny.min.mjs"));

/** What this browser decodes: names of codecs, and those of the others. */
export async function decodable() {
  const found = {yes: [], no: []};
  for (const [codec, probe] of Object.entries(PROBES)) {
    const answer = await self.VideoDecoder?.isConfigSupported({codec: probe}).catch(() => null);
    found[answer?.supported ? "yes" : "no"].push(NAMES[codec]);
  }
  return found;
}

export async function openClip(file) {
  const {ALL_FORMATS, BlobSource, CanvasSink, Input} = await load();
  const input = new Input({source: new BlobSource(file), formats: ALL_FORMATS});
  const track = await input.getPrimaryVideoTrack();
  if (!track) throw new Error("This file has no video.");
  const codec = await track.getCodec();
  if (!await track.canDecode()) {
    const other = codec === "hevc" ? "try Safari, or Chrome or Edge on a device that decodes HEVC, or convert it to H.264" : "convert it to H.264";
    throw new Error(`This browser cannot decode ${NAMES[codec] || codec || "this video"}: ${other}.`);
  }
  const [width, height] = [await track.getDisplayWidth(), await track.getDisplayHeight()];
  const seconds = await track.computeDuration();
  const {averagePacketRate} = await track.computePacketStats(60);
  const start = await track.getFirstTimestamp();
  return {
    width, height, seconds, rate: averagePacketRate, format: NAMES[codec] || codec,
    sound: Boolean(await input.getPrimaryAudioTrack()),
    async frame(at, size) {
      const found = await new CanvasSink(track, {...size, fit: "fill"}).getCanvas(start + at);
      if (!found) throw new Error("There is no frame at this moment.");
      return found.canvas;
    },
    write: (size, restore) => write(input, track, size, restore),
  };
}

/** `restore` gets a frame and the canvas to draw on. */
async function write(input, track, size, restore) {
  const {BufferTarget, CanvasSource, EncodedAudioPacketSource, EncodedPacketSink, Mp4OutputFormat, Output, QUALITY_HIGH,
    StreamTarget, VideoSampleSink, WebMOutputFormat, getFirstEncodableVideoCodec} = await load();
  const codec = await getFirstEncodableVideoCodec(["avc", "vp9", "vp8", "av1"], size);
  if (!codec) throw new Error("This browser cannot encode video.");
  const mp4 = codec === "avc";
  const place = await newPlace().catch(() => null);
  const format = mp4 ? new Mp4OutputFormat({fastStart: place ? false : "in-memory"}) : new WebMOutputFormat();
  const target = place ? new StreamTarget(place.writable, {chunked: true}) : new BufferTarget();
  const output = new Output({format, target});
  const canvas = new OffscreenCanvas(size.width, size.height), turned = new OffscreenCanvas(size.width, size.height);
  const frames = new CanvasSource(canvas, {codec, bitrate: QUALITY_HIGH, keyFrameInterval: 2});
  output.addVideoTrack(frames);
  const sound = await soundSource(input, format, {EncodedAudioPacketSource, EncodedPacketSink});
  if (sound) output.addAudioTrack(sound.source);
  await output.start();
  let encoded = Promise.resolve();
  try {
    for await (const sample of new VideoSampleSink(track).samples()) {
      const whole = !sample.rotation && sample.displayWidth === size.width && sample.displayHeight === size.height;
      if (!whole) sample.draw(turned.getContext("2d"), 0, 0, size.width, size.height);
      const frame = whole ? sample.toVideoFrame() : new VideoFrame(turned, {timestamp: sample.microsecondTimestamp});
      const {timestamp, duration} = sample;
      sample.close();
      const draw = await restore(frame).finally(() => frame.close());
      await encoded; // the one before: this frame was restored meanwhile
      draw(canvas.getContext("2d"));
      encoded = frames.add(Math.max(0, timestamp), duration);
      encoded.catch(() => {}); // the next turn says it
    }
    await encoded;
    if (sound) await sound.copy();
    await output.finalize();
  } catch (error) {
    await output.cancel();
    throw error;
  }
  const type = mp4 ? "video/mp4" : "video/webm", suffix = mp4 ? ".mp4" : ".webm";
  const blob = place ? (await place.handle.getFile()).slice(0, undefined, type) : new Blob([target.buffer], {type});
  return {blob, suffix, onDisk: Boolean(place)};
}

/** A new file in this site's own storage. What is left of earlier days goes. */
async function newPlace() {
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("results", {create: true});
  for await (const [name, handle] of folder.entries()) {
    if (Date.now() - (await handle.getFile()).lastModified > DAY) await folder.removeEntry(name).catch(() => {});
  }
  const handle = await folder.getFileHandle(crypto.randomUUID(), {create: true});
  return {handle, writable: await handle.createWritable()};
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
