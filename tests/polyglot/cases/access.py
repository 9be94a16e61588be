"""Cases about access: TLS with an authority of one's own, mutual TLS, tokens."""

import hashlib
import secrets

import ports
from broker import Record
from cases import case
from program import PATIENCE


def served(stage, **top):
    """A topic with one record and a gateway that is reached as the keywords say."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(b"for those who may")])
    return topic, stage.gateway({"work": {"topics": [topic]}}, **top)


def works(stage, topic, at, *arguments):
    """A program that is let in takes the record that is there, and Kafka has the commit."""
    program = stage.program(at, *arguments)
    program.first("verdict", verdict="acked")
    stage.settled(topic)
    program.close()


def stays_out(stage, at, *arguments):
    """A program whose connection comes to nothing opens nothing, and says what is wrong.

    A library that can tell that TLS is to blame may give up; the others try again.
    """
    program = stage.program(at, *arguments)

    def told():
        events = program.so_far()
        gave_up = [one for one in events if one["event"] == "error"]
        lost = [one for one in events if one["event"] == "disconnected"]
        return gave_up or (lost if len(lost) >= 2 else None)

    seen = program.wait("it gives up or tries again", told, PATIENCE)
    assert not program.all("opened"), "it was let in"
    # With TLS 1.3 a client's certificate is refused after its handshake, when the call may
    # be under way already.
    broken = ("UNAVAILABLE", "CANCELLED", "INTERNAL")
    assert seen[0].code in broken and seen[0].message, seen[0]
    if seen[0]["event"] == "error":
        program.gives_up()
    else:
        program.close()


def gives_up_tls(stage, at, *arguments):
    """A program that cannot have TLS here says so at once, and does not try again."""
    program = stage.program(at, *arguments)
    error = program.gives_up()
    assert error.code == "UNAVAILABLE" and "TLS" in error.message, error
    assert not program.all("disconnected"), "it tried again"
    assert not program.all("opened"), "it was let in"


@case
def tls(stage):
    """TLS with an authority of one's own: by https address, by option, by another name."""
    authority = stage.certificates()
    certificate, key = authority.server("localhost", "gateway.test")
    topic, gateway = served(
        stage, listen__tls__certificate_file=certificate, listen__tls__key_file=key
    )
    trusts = ["--tls-ca", authority.file]
    works(stage, topic, f"https://localhost:{gateway.port}", *trusts)

    stage.broker.write(topic, [Record(b"another")])
    named = ["--tls-server-name", "gateway.test"]
    works(stage, topic, f"127.0.0.1:{gateway.port}", *trusts, *named)

    # Neither an authority that did not sign it, nor a name that it is not for.
    other = type(authority)(stage.folder, "other").file
    gives_up_tls(stage, f"https://localhost:{gateway.port}", "--tls-ca", other)
    else_ = ["--tls-server-name", "else.test"]
    gives_up_tls(stage, f"127.0.0.1:{gateway.port}", *trusts, *else_)
    # Plain text may as well have met a gateway that goes down; TLS to a plain port has not.
    stays_out(stage, gateway)
    plain = stage.gateway({"work": {"topics": [topic]}})
    gives_up_tls(stage, f"https://localhost:{plain.port}", *trusts)


@case
def mtls(stage):
    """Mutual TLS: a certificate that the authority signed is let in, none is not."""
    authority = stage.certificates()
    certificate, key = authority.server("localhost")
    topic, gateway = served(
        stage,
        listen__tls__certificate_file=certificate,
        listen__tls__key_file=key,
        listen__tls__client_ca_file=authority.file,
    )
    mine, my_key = authority.client("a subscriber")
    trusts = ["--tls-ca", authority.file]
    at = f"https://localhost:{gateway.port}"
    works(stage, topic, at, *trusts, "--tls-cert", mine, "--tls-key", my_key)
    stays_out(stage, at, *trusts)


@case
def addresses(stage):
    """Of several addresses the one that serves is found, and the next one once it is gone."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(b"first")])
    gateway = stage.gateway({"work": {"topics": [topic]}})
    spare = stage.gateway({"work": {"topics": [topic]}})
    spare.process.kill()
    nobody = f"127.0.0.1:{ports.free()}"
    program = stage.program(f"{nobody},{gateway.address},{spare.address}")
    program.first("verdict", verdict="acked")
    stage.settled(topic)
    # Its lanes go where the other one is, and so does the program.
    gateway.process.kill()
    spare.start()
    stage.broker.write(topic, [Record(b"second")])
    program.count(2, "opened", 60)
    program.first("verdict", 60, verdict="acked", offset=1)
    stage.settled(topic)
    program.close()


@case
def token(stage):
    """A known token is let in; an unknown one or none is refused, and not tried again."""
    known, unknown = secrets.token_hex(32), secrets.token_hex(32)
    digest = hashlib.sha256(known.encode()).hexdigest()
    tokens = stage.file("tokens", f"# Who may come in.\nservice:sha256:{digest}\n")
    topic, gateway = served(stage, listen__tokens_file=str(tokens))
    # The last line's end is not part of the token.
    right, wrong = stage.file("right", known + "\n"), stage.file("wrong", unknown)
    works(stage, topic, gateway, "--token-file", right)
    for arguments, reason in [(["--token-file", wrong], "TOKEN_UNKNOWN"), ([], "TOKEN_MISSING")]:
        program = stage.program(gateway, *arguments)
        error = program.gives_up()
        assert (error.code, error.reason) == ("UNAUTHENTICATED", reason), error
        assert not program.all("disconnected"), "it tried again"
