/** Company: who and what takes part in a test, ended with it; what pages printed is told when it fails. */
import type { TestContext } from "vitest";
import { Person as Client } from "../../support/people.ts";
import type { Browser, Page, Person } from "./browser.ts";
import { ProxyServer } from "./proxy.ts";
import { Relay, type RelayOptions } from "./relay.ts";

/** What a test is given: works where tests run at the same time, too. */
export type Test = Pick<TestContext, "onTestFinished" | "onTestFailed">;

export async function relayFor(t: Test, options?: RelayOptions): Promise<Relay> {
  const relay = await Relay.start(options);
  t.onTestFinished(() => relay.stop());
  return relay;
}

export async function proxyFor(t: Test, relay: Relay): Promise<ProxyServer> {
  const proxy = await ProxyServer.start(relay.port);
  t.onTestFinished(() => proxy.stop());
  return proxy;
}

/** Someone with a device. */
export async function personFor<P extends Person>(t: Test, browser: { person(): Promise<P> }): Promise<P> {
  const person = await browser.person();
  t.onTestFinished(() => person.close());
  return person;
}

/** A page of someone with a device of their own. */
export async function pageFor(t: Test, browser: Browser): Promise<Page> {
  return watched(t, await (await personFor(t, browser)).page());
}

/** Tells what the page printed, if the test fails. */
export function watched<P extends Page>(t: Test, page: P): P {
  t.onTestFailed(() => {
    if (page.printed.length > 0) console.log(["the page's console:", ...page.printed].join("\n"));
  });
  return page;
}

/** Someone without a page: a client in this process. */
export async function clientFor(
  t: Test,
  server: string,
  room: string,
  options: Parameters<typeof Client.open>[2] = {},
): Promise<Client> {
  const client = await Client.open(server, room, options);
  t.onTestFinished(() => client.client.close());
  return client;
}
