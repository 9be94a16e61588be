package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.ackgate.v1.Record;
import dev.ackgate.v1.RecordTrace;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** What a delivery says of its trace. */
final class TraceContextTest {
  private static final String TRACE = "0af7651916cd43dd8448eb211c80319c";
  private static final String SPAN = "b7ad6b7169203331";
  private static final String PARENT = "00-" + TRACE + "-" + SPAN + "-01";
  private static final String OWN = "00-" + TRACE + "-00f067aa0ba902b7-01";

  /** The context of a record with these headers, in pairs, and the gateway's own span, if not empty. */
  private static Optional<TraceContext> of(String own, String... headers) {
    Record.Builder record = Record.newBuilder().setOffset(5);
    for (int i = 0; i < headers.length; i += 2) {
      record.addHeadersBuilder().setKey(headers[i]).setValue(ByteString.copyFromUtf8(headers[i + 1]));
    }
    var wire = dev.ackgate.v1.Batch.newBuilder().setTopic("orders").addRecords(record);
    if (!own.isEmpty()) {
      wire.addTraces(RecordTrace.newBuilder().setOffset(5).setTraceparent(own).setTracestate("g=1"));
    }
    Settler settler = new Settler(run -> {}, false);
    return Batch.of(settler, new Lane("orders", 0, 1, 7), wire.build()).deliveries().get(0).traceContext();
  }

  private static Optional<TraceContext> context(String parent, String state) {
    return Optional.of(new TraceContext(parent, state));
  }

  @Test
  void itsOwnIsReadAndTheGatewaysGoesBefore() {
    assertEquals(context(PARENT, "a=1"), of("", "traceparent", PARENT, "tracestate", "a=1"));
    assertEquals(Optional.empty(), of(""));
    assertEquals(context(OWN, "g=1"), of(OWN, "traceparent", PARENT));
    assertEquals(context(PARENT, ""), of("nonsense", "traceparent", PARENT));
    assertEquals(
        context(PARENT, "a=1,b=2"),
        of("", "traceparent", "x", "tracestate", "a=1", "traceparent", PARENT, "tracestate", "b=2"));
    TraceContext context = new TraceContext(PARENT, "a=1");
    assertEquals(List.of(TRACE, SPAN, true), List.of(context.traceId(), context.spanId(), context.isSampled()));
    assertEquals(Map.of("traceparent", PARENT, "tracestate", "a=1"), context.carrier());
    assertEquals(List.of("traceparent", "tracestate"), context.headers().stream().map(Header::name).toList());
  }

  @Test
  void whatIsMalformedIsNone() {
    for (String wrong :
        List.of(
            "",
            "00-0af7",
            PARENT.toUpperCase(),
            PARENT.replace(TRACE, "0".repeat(32)),
            PARENT.replace(SPAN, "0".repeat(16)),
            "ff" + PARENT.substring(2),
            PARENT + "-more",
            " " + PARENT,
            PARENT + "\n")) {
      assertTrue(of("", "traceparent", wrong).isEmpty(), wrong);
    }
    assertEquals(context(PARENT, ""), TraceContext.parse("01" + PARENT.substring(2) + "-more", ""));
    assertEquals(context(PARENT.substring(0, 53) + "00", ""), TraceContext.parse(PARENT.substring(0, 53) + "fe", ""));
    String many = String.join(",", Collections.nCopies(33, "a=1"));
    for (String state : List.of("a", "A=1", "a=" + "x".repeat(511), "a=1,b", many)) {
      assertEquals(context(PARENT, ""), TraceContext.parse(PARENT, state), state);
    }
    assertEquals(context(PARENT, "a=1, b@c=2"), TraceContext.parse(PARENT, "a=1, b@c=2"));
  }
}
