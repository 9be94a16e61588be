/**
 * `TraceContext`: where a record is in a trace, as W3C Trace Context has it. Headers come from
 * whoever wrote the record: what is not exactly as it should be is none.
 */

const PARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const MEMBER = /^[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]*$/;

/** Longest `tracestate` that is passed on, and most of its members. */
const MOST_STATE = 512;
const MOST_MEMBERS = 32;

type Headers = readonly (readonly [name: string, value: Buffer | null])[];

/** The span that work on a record continues. Its two fields are headers as they stand. */
export class TraceContext {
  private constructor(
    readonly traceparent: string,
    /** Empty if there is none. */
    readonly tracestate: string,
  ) {}

  /**
   * Reads both headers; undefined if `traceparent` is not well formed. A `tracestate` that is
   * not, or has more than 512 bytes or 32 members, is left out.
   */
  static parse(traceparent: string, tracestate = ""): TraceContext | undefined {
    const [, version, trace = "", span = "", flags = "", more] = PARENT.exec(traceparent) ?? [];
    // Later versions may go on; ids of zeros mean none.
    if (version === undefined || (version === "00" && more) || /[\n\r]/.test(traceparent)) return undefined;
    if (/^0+$/.test(trace) || /^0+$/.test(span)) return undefined;
    const sampled = Number.parseInt(flags, 16) & 1;
    return new TraceContext(`00-${trace}-${span}-0${sampled}`, isState(tracestate) ? tracestate : "");
  }

  /** What the headers of a record say. */
  static ofRecord(headers: Headers): TraceContext | undefined {
    const values = (wanted: string): string[] =>
      headers.flatMap(([name, value]) => (name === wanted && value ? [value.toString("utf8")] : []));
    return TraceContext.parse(values("traceparent").at(-1) ?? "", values("tracestate").join(","));
  }

  /** 32 hexadecimal digits. */
  get traceId(): string {
    return this.traceparent.slice(3, 35);
  }

  /** 16 hexadecimal digits. */
  get spanId(): string {
    return this.traceparent.slice(36, 52);
  }

  /** Whether whoever wrote it may have recorded the trace. */
  get isSampled(): boolean {
    return this.traceparent.endsWith("1");
  }

  /** What OpenTelemetry's propagators extract a context from. */
  carrier(): Record<string, string> {
    const { traceparent, tracestate } = this;
    return tracestate ? { traceparent, tracestate } : { traceparent };
  }

  /** The same as headers of a record to publish. */
  headers(): [name: string, value: string][] {
    return Object.entries(this.carrier());
  }
}

function isState(text: string): boolean {
  const members = text.split(",").map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ""));
  const fits = Buffer.byteLength(text) <= MOST_STATE && members.length <= MOST_MEMBERS;
  return fits && members.every((member) => member === "" || MEMBER.test(member));
}
