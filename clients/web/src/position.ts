/** A position: the last record that a reader has, with that record's identity. */

/**
 * Names one place in one incarnation of a log. A bare `seq` is not enough: after a store lost its newest
 * writes, the same number names another record, and who went on from it would be silently wrong.
 */
export interface Position {
  readonly epoch: number;
  /** 0 is the start of the log. */
  readonly seq: number;
  readonly author: number;
  readonly n: number;
  /** Milliseconds since 1970, by the server's clock. */
  readonly at: number;
}
