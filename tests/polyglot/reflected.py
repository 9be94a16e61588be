"""A gRPC client that knows nothing but what the gateway's reflection tells it."""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection_pb2 as wire

# Both versions have the same messages.
V1 = "grpc.reflection.v1.ServerReflection"
V1ALPHA = "grpc.reflection.v1alpha.ServerReflection"
SECONDS = 20


class Reflection:
    """Asks one version of the reflection service, and makes calls from its answers."""

    def __init__(self, address, version=V1):
        self.channel = grpc.insecure_channel(address)
        self._ask = self.channel.stream_stream(
            f"/{version}/ServerReflectionInfo",
            request_serializer=wire.ServerReflectionRequest.SerializeToString,
            response_deserializer=wire.ServerReflectionResponse.FromString,
        )
        # A pool of its own: nothing is known but what was asked for.
        self._pool = descriptor_pool.DescriptorPool()
        self._known = set()

    def close(self):
        self.channel.close()

    def services(self):
        """The names of all services."""
        answer = self._one(wire.ServerReflectionRequest(list_services=""))
        return {one.name for one in answer.list_services_response.service}

    def message(self, name):
        """The class of a message by its full name."""
        self._learn(wire.ServerReflectionRequest(file_containing_symbol=name))
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))

    def unary(self, service, method, request):
        """Makes a call with the fields of `request`, and returns the answer."""
        self._learn(wire.ServerReflectionRequest(file_containing_symbol=service))
        described = self._pool.FindServiceByName(service).FindMethodByName(method)
        asked, answered = (
            message_factory.GetMessageClass(one)
            for one in (described.input_type, described.output_type)
        )
        call = self.channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        return call(asked(**request), timeout=SECONDS)

    def _one(self, request):
        answers = list(self._ask(iter([request]), timeout=SECONDS))
        assert len(answers) == 1, answers
        kind = answers[0].WhichOneof("message_response")
        assert kind != "error_response", answers[0].error_response
        return answers[0]

    def _learn(self, request):
        """Takes a file and all that it imports into the pool, imports first."""
        answer = self._one(request).file_descriptor_response
        files = map(descriptor_pb2.FileDescriptorProto.FromString, answer.file_descriptor_proto)
        files = {one.name: one for one in files}
        while files:
            name = next(iter(files))
            self._take(name, files)

    def _take(self, name, files):
        file = files.pop(name, None)
        if name in self._known:
            return
        if file is None:
            self._learn(wire.ServerReflectionRequest(file_by_filename=name))
            return
        for needed in file.dependency:
            if needed not in self._known:
                self._take(needed, files)
        if name not in self._known:
            self._known.add(name)
            self._pool.AddSerializedFile(file.SerializeToString())
