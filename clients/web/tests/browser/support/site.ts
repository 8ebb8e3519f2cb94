/** A site of one page, for tests of what drives the browsers rather than of the board. */
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

export interface Site {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/** Serves the page at every path, and a script at `/page.js`. WebSockets get every message back. */
export async function startSite(page: string, script = ""): Promise<Site> {
  const server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : page);
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => {
    socket.on("error", () => {});
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}/`,
    port: address.port,
    close: () => {
      for (const socket of sockets.clients) socket.terminate();
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
