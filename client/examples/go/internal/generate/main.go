// Command generate makes the Go code of the protocol: it reads the .proto files, without
// a protoc, and hands them to protoc-gen-go and protoc-gen-go-grpc, which go.mod pins as
// tools. Run by `go generate`; what it writes is not committed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// limit is the longest that all of it may take: the tools are built on their first use.
const limit = 10 * time.Minute

func main() {
	protos := flag.String("protos", "", "folder that holds ackgate/v1/*.proto")
	module := flag.String("module", "", "the module whose root is the working folder")
	target := flag.String("package", "", "import path of the generated package")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := generate(ctx, *protos, *module, *target); err != nil {
		log.Fatal(err)
	}
}

func generate(ctx context.Context, protos, module, target string) error {
	names, err := protoNames(protos)
	if err != nil {
		return err
	}
	request, err := compile(ctx, protos, names)
	if err != nil {
		return err
	}
	parameters := []string{"module=" + module}
	for _, name := range names {
		parameters = append(parameters, "M"+name+"="+target)
	}
	request.Parameter = proto.String(strings.Join(parameters, ","))
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(ctx, plugin, request); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// protoNames returns the files as they import each other.
func protoNames(protos string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(protos, "ackgate", "v1", "*.proto"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no .proto files under %s", protos)
	}
	names := make([]string, 0, len(paths))
	for _, path := range paths {
		name, err := filepath.Rel(protos, path)
		if err != nil {
			return nil, err
		}
		names = append(names, filepath.ToSlash(name))
	}
	slices.Sort(names)
	return names, nil
}

// compile makes of the files what a protoc plugin reads: with all that they import,
// imports first.
func compile(ctx context.Context, protos string, names []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			ImportPaths: []string{protos},
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names}
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		imports := file.Imports()
		for i := range imports.Len() {
			add(imports.Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, descriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	return request, nil
}

// descriptor keeps the comments, which a conversion from reflection alone would lose.
func descriptor(file protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	if source, ok := file.(interface {
		FileDescriptorProto() *descriptorpb.FileDescriptorProto
	}); ok {
		return source.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(file)
}

func run(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, file := range response.File {
		path := filepath.FromSlash(file.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
