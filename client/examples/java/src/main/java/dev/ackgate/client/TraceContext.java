package dev.ackgate.client;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The span that work on a record continues, as W3C Trace Context has it. Both are headers as they
 * stand.
 *
 * @param traceparent trace, span and flags
 * @param tracestate what vendors add; empty if there is nothing
 */
public record TraceContext(String traceparent, String tracestate) {
  static final String PARENT = "traceparent";
  static final String STATE = "tracestate";

  private static final Pattern FORM =
      Pattern.compile("(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?");
  private static final Pattern MEMBER =
      Pattern.compile("[a-z0-9][a-z0-9_*/@-]*=[\\x20-\\x2b\\x2d-\\x3c\\x3e-\\x7e]*");

  /** Longest {@code tracestate} that is passed on, and most of its members. */
  private static final int MOST_STATE = 512;

  private static final int MOST_MEMBERS = 32;

  /**
   * Reads both headers; empty if {@code traceparent} is not well formed. A {@code tracestate} that is
   * not, or has more than 512 bytes or 32 members, is left out.
   */
  public static Optional<TraceContext> parse(String traceparent, String tracestate) {
    Matcher form = FORM.matcher(traceparent);
    // Later versions may go on; ids of zeros mean none.
    if (!form.matches()
        || (form.group(1).equals("00") && form.group(5) != null)
        || form.group(2).chars().allMatch(it -> it == '0')
        || form.group(3).chars().allMatch(it -> it == '0')) {
      return Optional.empty();
    }
    int sampled = Integer.parseInt(form.group(4), 16) & 1;
    String parent = "00-" + form.group(2) + "-" + form.group(3) + "-0" + sampled;
    return Optional.of(new TraceContext(parent, isState(tracestate) ? tracestate : ""));
  }

  /** What the headers of a record say. Whoever wrote them may have written anything. */
  static Optional<TraceContext> of(List<Header> headers) {
    String parent = "";
    StringBuilder state = new StringBuilder();
    for (Header header : headers) {
      String text = header.value() == null ? "" : new String(header.value(), StandardCharsets.UTF_8);
      if (header.name().equals(PARENT)) {
        parent = text;
      } else if (header.name().equals(STATE) && header.value() != null && state.length() <= MOST_STATE) {
        state.append(state.isEmpty() ? "" : ",").append(text);
      }
    }
    return parse(parent, state.toString());
  }

  private static boolean isState(String text) {
    String[] members = text.split(",", -1);
    if (text.getBytes(StandardCharsets.UTF_8).length > MOST_STATE || members.length > MOST_MEMBERS) {
      return false;
    }
    for (String member : members) {
      String trimmed = member.replaceAll("^[ \t]+|[ \t]+$", "");
      if (!trimmed.isEmpty() && !MEMBER.matcher(trimmed).matches()) {
        return false;
      }
    }
    return true;
  }

  /** Returns 32 hexadecimal digits. */
  public String traceId() {
    return traceparent.substring(3, 35);
  }

  /** Returns 16 hexadecimal digits. */
  public String spanId() {
    return traceparent.substring(36, 52);
  }

  /** Returns whether whoever wrote it may have recorded the trace. */
  public boolean isSampled() {
    return traceparent.endsWith("1");
  }

  /** Returns what OpenTelemetry's propagators extract a context from. */
  public Map<String, String> carrier() {
    Map<String, String> carrier = new LinkedHashMap<>();
    carrier.put(PARENT, traceparent);
    if (!tracestate.isEmpty()) {
      carrier.put(STATE, tracestate);
    }
    return carrier;
  }

  /** Returns the same as headers of a record to publish. */
  public List<Header> headers() {
    return carrier().entrySet().stream()
        .map(it -> new Header(it.getKey(), it.getValue().getBytes(StandardCharsets.UTF_8)))
        .toList();
  }
}
