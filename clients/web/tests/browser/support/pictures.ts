/** Pictures that the board saves: taken from the browser's downloads, and read by the browser itself. */
import type { ChromiumPage } from "./chromium.ts";

/** What a PNG holds. */
export interface PngContent {
  readonly width: number;
  readonly height: number;
  /** Pixels of another colour than the one in the upper left corner. */
  readonly inked: number;
}

/** Saves the board from its menu; what was downloaded. */
export async function savedFile(page: ChromiumPage, item: "Save as PNG" | "Save as SVG"): Promise<Buffer> {
  const coming = page.tab.waitForEvent("download");
  await page.tab.getByRole("button", { name: "Menu" }).click();
  await page.tab.getByRole("button", { name: item }).click();
  const chunks: Buffer[] = [];
  for await (const chunk of await (await coming).createReadStream()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Throws when it is no PNG. */
export async function readPng(page: ChromiumPage, png: Buffer): Promise<PngContent> {
  return page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const { width, height } = picture;
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("the browser has no canvas");
    context.drawImage(picture, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    return { width, height, inked: pixels.reduce((sum, pixel) => sum + (pixel === pixels[0] ? 0 : 1), 0) };
  }, png.toString("base64"));
}

/** The paths of an SVG and its size. Throws when it cannot be parsed. */
export async function readSvg(
  page: ChromiumPage,
  svg: Buffer,
): Promise<{ readonly paths: number; readonly width: number; readonly height: number }> {
  return page.evaluate((text) => {
    const { documentElement } = new DOMParser().parseFromString(text, "image/svg+xml");
    const errors = documentElement.querySelectorAll("parsererror");
    if (errors.length > 0 || documentElement.nodeName !== "svg") throw new Error("it is no SVG");
    const size = (name: string) => Number(documentElement.getAttribute(name));
    return {
      paths: documentElement.querySelectorAll("path").length,
      width: size("width"),
      height: size("height"),
    };
  }, svg.toString("utf8"));
}
