#!/usr/bin/env bash
# One Apache Kafka broker on loopback (KRaft, broker and controller in one), for
# tests and for trying things out. Needs Java 17 or newer, and Maven the first time.
#
#   broker.sh run [--until-stdin-closes]
#       Starts a broker with empty logs, prints "ready HOST:PORT" once it takes
#       requests, and runs until it is signalled. Its data goes with it. With the
#       option it also ends when its standard input closes, so that a broker
#       never outlives the process that started it.
#   broker.sh tool NAME [ARG...]
#       Kafka's own command-line tool, named as its script is without ".sh":
#       topics, consumer-groups, configs, get-offsets, delete-records, ... or a class.
#   broker.sh fetch
#       Gets Kafka's jars, if they are not there yet.
#   broker.sh available
#       Ends with 0 if the above can work here; else says what is missing.
#
# Environment, all optional. Clusters with different ports live side by side.
#   ACKGATE_KAFKA_PORT              the broker's port                   19092
#   ACKGATE_KAFKA_CONTROLLER_PORT   its controller's port               the port + 1
#   ACKGATE_KAFKA_HOME              where the jars are kept             ~/.cache/ackgate-kafka
#   ACKGATE_KAFKA_PROPERTIES        more broker properties, one a line  none
#   ACKGATE_KAFKA_HEAP              the broker's heap                   512m
#   TMPDIR                          where the broker's data goes        /tmp
set -euo pipefail

version=4.4.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${ACKGATE_KAFKA_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/ackgate-kafka}
jars=$home/$version
port=${ACKGATE_KAFKA_PORT:-19092}
controller_port=${ACKGATE_KAFKA_CONTROLLER_PORT:-$((port + 1))}

fail() {
  echo "broker.sh: $*" >&2
  exit 1
}

missing() {
  if ! command -v java >/dev/null; then
    echo "Java is missing"
  elif [ "$(java_release)" -lt 17 ]; then
    echo "Java $(java_release) is too old, 17 is needed"
  elif [ ! -d "$jars" ] && ! command -v mvn >/dev/null; then
    echo "Maven is missing and Kafka's jars are not in $jars"
  fi
}

java_release() {
  local first
  first=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
  echo "${first:-0}"
}

# The folder appears under its name only when it is complete, so two runs at once
# do no harm: the later one throws its copy away.
fetch() {
  [ -d "$jars" ] && return
  local without staging
  without=$(missing)
  [ -z "$without" ] || fail "$without"
  mkdir -p "$home"
  staging=$(mktemp -d "$home/fetching.XXXXXX")
  cp "$here/pom.xml" "$staging/pom.xml"
  (cd "$staging" && mvn -q -B -Dkafka="$version" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory=jars) >&2 || {
    rm -rf "$staging"
    fail "Maven could not get Apache Kafka $version"
  }
  mv -T "$staging/jars" "$jars" 2>/dev/null || true
  rm -rf "$staging"
  [ -d "$jars" ] || fail "Kafka's jars are not in $jars"
}

# Replaces the shell: the caller decides whether that is a subshell.
java_main() {
  exec java -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.showDateTime=true -cp "$jars/*" "$@"
}

properties() {
  cat <<EOF
node.id=1
process.roles=broker,controller
listeners=CLIENTS://127.0.0.1:$port,QUORUM://127.0.0.1:$controller_port
advertised.listeners=CLIENTS://127.0.0.1:$port
listener.security.protocol.map=CLIENTS:PLAINTEXT,QUORUM:PLAINTEXT
inter.broker.listener.name=CLIENTS
controller.listener.names=QUORUM
controller.quorum.bootstrap.servers=127.0.0.1:$controller_port
log.dirs=$1/logs
# A topic exists when a test has created it, and not before.
auto.create.topics.enable=false
# One broker cannot hold more than one copy.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# Few partitions: each costs files and start-up time.
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=4
# Groups form at once, and a lost member is noticed as soon as a test asks for.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
# Retention and compaction within a test's patience.
log.retention.check.interval.ms=1000
# By age only where a topic says so: some tests write records of long ago.
log.retention.ms=-1
log.segment.delete.delay.ms=1000
log.cleaner.backoff.ms=1000
${ACKGATE_KAFKA_PROPERTIES:-}
EOF
}

run() {
  local until_stdin_closes=false
  case ${1:-} in
    --until-stdin-closes) until_stdin_closes=true ;;
    "") ;;
    *) fail "run takes --until-stdin-closes, not $1" ;;
  esac
  fetch

  data=$(mktemp -d "${TMPDIR:-/tmp}/ackgate-kafka.XXXXXX")
  broker=
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM

  local log=$data/broker.log
  properties "$data" >"$data/server.properties"
  (java_main -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    kafka.tools.StorageTool format --standalone --cluster-id AckgateTestCluster000A \
    --config "$data/server.properties") >"$log" 2>&1 || give_up "the log folder could not be formatted"

  # The server says that it has started only when it is registered and unfenced;
  # its port is open well before that.
  (java_main "-Xmx${ACKGATE_KAFKA_HEAP:-512m}" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info \
    kafka.Kafka "$data/server.properties") </dev/null >>"$log" 2>&1 &
  broker=$!
  local deadline=$((SECONDS + 90))
  until grep -q "Kafka Server started" "$log"; do
    kill -0 "$broker" 2>/dev/null || give_up "the broker ended"
    [ "$SECONDS" -lt "$deadline" ] || give_up "the broker was not ready after 90 s"
    pause 0.1
  done
  echo "ready 127.0.0.1:$port"

  while kill -0 "$broker" 2>/dev/null; do
    if $until_stdin_closes; then
      # Above 128: nothing came within the second. Else the input has ended.
      read -r -t 1 _ || [ $? -gt 128 ] || exit 0
    else
      pause 1
    fi
  done
  give_up "the broker ended"
}

# A sleep that a signal ends at once: bash runs traps only between commands.
pause() {
  sleep "$1" &
  wait $! || true
}

give_up() {
  tail -n 20 "$data/broker.log" >&2
  fail "$1"
}

clean_up() {
  if [ -n "$broker" ]; then
    kill -KILL "$broker" 2>/dev/null || true
    wait "$broker" 2>/dev/null || true
  fi
  rm -rf "$data"
}

tool() {
  [ $# -gt 0 ] || fail "name a tool"
  local name=$1 tools=org.apache.kafka.tools main
  shift
  case $name in
    acls) main=$tools.AclCommand ;;
    broker-api-versions) main=$tools.BrokerApiVersionsCommand ;;
    configs) main=$tools.ConfigCommand ;;
    console-consumer) main=$tools.consumer.ConsoleConsumer ;;
    console-producer) main=$tools.ConsoleProducer ;;
    consumer-groups) main=$tools.consumer.group.ConsumerGroupCommand ;;
    delete-records) main=$tools.DeleteRecordsCommand ;;
    get-offsets) main=$tools.GetOffsetShell ;;
    groups) main=$tools.GroupsCommand ;;
    producer-perf-test) main=$tools.ProducerPerformance ;;
    share-groups) main=$tools.consumer.group.ShareGroupCommand ;;
    topics) main=$tools.TopicCommand ;;
    transactions) main=$tools.TransactionsCommand ;;
    *.*) main=$name ;;
    *) fail "there is no tool $name here" ;;
  esac
  fetch
  java_main -Xmx256m -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=error \
    "$main" "$@"
}

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

case ${1:-} in
  run | tool) "$@" ;;
  fetch) fetch ;;
  available)
    without=$(missing)
    [ -z "$without" ] || fail "$without"
    ;;
  *) usage ;;
esac
