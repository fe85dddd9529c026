// The site without a network. The page is kept at once; networks and runtimes, which are large, when they are first used.
// `libranet web` fills in the site's state and its files.

const CACHE = "libranet-SITE";
const FILES = ["FILES"];

self.addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const cache = await caches.open(CACHE);
    await cache.addAll(["./", ...FILES].map((file) => new Request(file, {cache: "reload"})));
    await self.skipWaiting();
  })());
});

self.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    const ours = (await caches.keys()).filter((name) => name.startsWith("libranet-") && name !== CACHE);
    await Promise.all(ours.map((name) => caches.delete(name)));
    await self.clients.claim();
  })());
});

self.addEventListener("fetch", (event) => {
  const {request} = event, inside = request.url.startsWith(self.registration.scope);
  if (request.method === "GET" && inside && !request.headers.has("range")) event.respondWith(answer(request));
});

async function answer(request) {
  const cache = await caches.open(CACHE);
  let found = await cache.match(request, {ignoreSearch: true});
  if (!found) {
    found = await fetch(request);
    if (found.status === 200) await cache.put(new URL(request.url).href.split("?")[0], found.clone());
  }
  return isolated(found);
}

// With these headers a browser gives WebAssembly several threads. A static host may have no way to send them.
function isolated(response) {
  if (!response.body || response.redirected) return response;
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  headers.set("Cross-Origin-Resource-Policy", "same-origin");
  return new Response(response.body, {status: response.status, statusText: response.statusText, headers});
}
