//! What tools are told when they ask the gateway for its services and messages.

use prost::Message as _;
use prost_types::FileDescriptorProto;
use tokio_stream::once;
use tonic::Code;
use tonic_reflection::pb;

use crate::support::{Case, Gateway, Stage, cases, connection};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: both_versions_tell_all_services_and_their_messages,
            nothing_is_told_where_it_is_off;
    ]
}

/// Makes a function that asks one version of the protocol for what there is.
macro_rules! asks {
    ($name:ident, $version:ident) => {
        /// The services, and the file that has the symbol.
        async fn $name(gateway: &Gateway, symbol: &str) -> Result<Told, tonic::Status> {
            use pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest as Ask,
                server_reflection_response::MessageResponse as Answer,
            };
            let ask = async |question: Ask| {
                let connection = connection(gateway.address).await?;
                let mut client = ServerReflectionClient::new(connection);
                let request = ServerReflectionRequest {
                    host: String::new(),
                    message_request: Some(question),
                };
                let mut answers = client
                    .server_reflection_info(once(request))
                    .await?
                    .into_inner();
                let answer = answers.message().await?.expect("there is an answer");
                Ok::<_, tonic::Status>(answer.message_response.expect("it says something"))
            };
            let mut services: Vec<String> = match ask(Ask::ListServices(String::new())).await? {
                Answer::ListServicesResponse(list) => {
                    list.service.into_iter().map(|one| one.name).collect()
                }
                other => panic!("{other:?}"),
            };
            services.sort();
            let file = match ask(Ask::FileContainingSymbol(symbol.to_owned())).await? {
                Answer::FileDescriptorResponse(files) => files.file_descriptor_proto,
                other => panic!("{other:?}"),
            };
            let file = FileDescriptorProto::decode(file[0].as_slice()).expect("it is one");
            Ok(Told { services, file })
        }
    };
}

asks!(asked, v1);
asks!(asked_as_of_old, v1alpha);

#[derive(Debug)]
struct Told {
    services: Vec<String>,
    file: FileDescriptorProto,
}

async fn both_versions_tell_all_services_and_their_messages(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let subscribe = "ackgate.v1.GatewayService.Subscribe";
    for told in [
        asked(&gateway, subscribe).await.unwrap(),
        asked_as_of_old(&gateway, subscribe).await.unwrap(),
    ] {
        let expected = [
            "ackgate.v1.GatewayService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        assert_eq!(told.services, expected, "those of operators are not here");
        assert_eq!(told.file.package(), "ackgate.v1");
        assert_eq!(told.file.service[0].method[0].name(), "Subscribe");
        let comments = told.file.source_code_info.expect("it has its comments");
        let words = comments.location.iter().map(|it| it.leading_comments());
        assert!(
            words
                .into_iter()
                .any(|words| words.contains("first message is `Open`"))
        );
    }
    let health = asked(&gateway, "grpc.health.v1.HealthCheckRequest").await;
    assert_eq!(health.unwrap().file.package(), "grpc.health.v1");
    let time = asked(&gateway, "google.protobuf.Duration").await;
    assert_eq!(time.unwrap().file.package(), "google.protobuf");
}

async fn nothing_is_told_where_it_is_off(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let top = "listen.reflection = false";
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], top).await;
    let name = "ackgate.v1.GatewayService";
    let refused = asked(&gateway, name).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    let refused = asked_as_of_old(&gateway, name).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
