/** A page that draws into its identity, for the test of the storage in real browsers. */
import { Outbox } from "../../src/outbox.ts";
import { browserPage } from "../../src/page.ts";
import { Storage } from "../../src/storage.ts";

const query = new URLSearchParams(location.search);
const skew = Number(query.get("skew") ?? 0);

async function open() {
  const now = () => Date.now() + skew;
  const storage = await Storage.open({
    ...{ server: `${location.origin}/path`, kind: "indexeddb", page: browserPage(), now },
  });
  const identity = await storage.claim("room");
  const found = { client: identity.saved.state?.client ?? null, draws: identity.saved.draws.length };
  const outbox = new Outbox(4, identity.saved);
  const save = async () => {
    const changes = outbox.changes();
    if (!changes) return;
    await identity.save({ ...changes, history: null });
    outbox.onPersisted(changes.revision);
  };
  return {
    found,
    isSecure: globalThis.isSecureContext,
    durable: () => storage.durable,
    taken: () => identity.isLost,
    draw(client: number, count: number) {
      const limits = { bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN: 0 };
      outbox.onWelcome(client, "ticket", limits, 0);
      for (let drawn = 0; drawn < count; drawn += 1) {
        outbox.push({
          ...{ kind: "begin", stroke: outbox.takeStroke(), style: { tool: 0, rgba: 255, width: 32 } },
          ...{ channels: 0, points: [drawn, drawn], end: true },
        });
        void save();
      }
    },
    /** How many may be sent, which are those that are saved. */
    sendable() {
      const next = outbox.next(0);
      return next.kind === "batch" ? next.batch.draws.length : 0;
    },
    async orphan() {
      const found = await storage.claimOrphan("room");
      return found && { client: found.saved.state?.client ?? null, draws: found.saved.draws.length };
    },
  };
}

export type TestedPage = Awaited<ReturnType<typeof open>>;

declare global {
  interface Window {
    opened: Promise<TestedPage>;
  }
}

window.opened = open();
