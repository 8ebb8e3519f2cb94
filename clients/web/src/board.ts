/**
 * The board: what a log looks like when drawn. A total function of the log, so that every reader that applied the
 * same records in the same order sees the same strokes (SPEC.md, B-1 to B-20).
 */
import type { LogRecord, StrokeName } from "./draw.ts";
import { Ledger } from "./ledger.ts";
import { type Change, Listeners, type Picture, type Stroke } from "./stroke.ts";

export { type Change, type Picture, SELF, Stroke } from "./stroke.ts";

/** The strict twin of the Rust board: apply records in order, then ask for the strokes. */
export class Board implements Picture {
  private ledger = new Ledger();
  private readonly listeners = new Listeners();

  /** Takes the next record of the log. For many, {@link applyAll} tells listeners once. */
  apply(record: LogRecord): void {
    this.applyAll([record]);
  }

  /** Takes the next records of the log, and tells listeners of the one change that they make. */
  applyAll(records: Iterable<LogRecord>): void {
    for (const record of records) this.ledger.record(record);
    this.tell(this.ledger.settle());
  }

  strokes(): Stroke[] {
    return this.ledger.strokes();
  }

  find(name: StrokeName): Stroke | undefined {
    return this.ledger.find(name);
  }

  subscribe(listener: (change: Change) => void): () => void {
    return this.listeners.add(listener);
  }

  /** Forgets everything; the records after it make a board of their own (B-20). */
  reset(): void {
    this.ledger = new Ledger();
    this.tell({ reset: true, appeared: [], grown: [], vanished: [] });
  }

  private tell(change: Change | null): void {
    if (change) this.listeners.tell(change);
  }
}
