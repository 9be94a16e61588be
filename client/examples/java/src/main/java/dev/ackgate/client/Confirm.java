package dev.ackgate.client;

/** Which answers to verdicts the gateway is asked for. */
public enum Confirm {
  /** Only of verdicts that changed nothing. */
  PROBLEMS(dev.ackgate.v1.Confirm.CONFIRM_UNSPECIFIED),
  /** Of every message, once its verdicts are applied. */
  APPLIED(dev.ackgate.v1.Confirm.CONFIRM_APPLIED),
  /**
   * Of every message, once what it did survives the loss of the gateway: for {@link
   * Delivery#ackDurably}. Each asks for a commit.
   */
  DURABLE(dev.ackgate.v1.Confirm.CONFIRM_DURABLE);

  final dev.ackgate.v1.Confirm wire;

  Confirm(dev.ackgate.v1.Confirm wire) {
    this.wire = wire;
  }
}
