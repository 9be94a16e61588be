//! [`World`]: what happens to gateways, subscribers and the broker in one run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    cluster::Cluster,
    dice::Dice,
    gateway::Gateway,
    history::{Event, History},
    manner::Manner,
    plan::Plan,
    subscriber,
};

/// How long everything may take once nothing goes wrong any more.
const CALM: Duration = Duration::from_secs(1800);

/// What actors share.
#[derive(Debug)]
struct World {
    plan: Arc<Plan>,
    history: History,
    cluster: Cluster,
    gateways: Mutex<Vec<Gateway>>,
    /// Cancelled when all subscribers are to go.
    leave: Mutex<CancellationToken>,
    /// Subscribers stay away.
    away: AtomicBool,
    calm: AtomicBool,
    sessions: AtomicU64,
    started: AtomicU64,
}

/// Runs a plan to its end.
pub(super) async fn run(plan: Plan, mut dice: Dice, history: History) {
    let plan = Arc::new(plan);
    let cluster = Cluster::start(Arc::clone(&plan), history.clone(), dice.fork());
    let world = Arc::new(World {
        plan: Arc::clone(&plan),
        history: history.clone(),
        cluster,
        gateways: Mutex::default(),
        leave: Mutex::default(),
        away: AtomicBool::new(false),
        calm: AtomicBool::new(false),
        sessions: AtomicU64::new(1),
        started: AtomicU64::new(1),
    });
    for partition in 0..plan.partitions {
        world.cluster.append(partition, plan.records);
    }
    for _ in 0..plan.gateways {
        world.start_gateway();
    }
    for _ in 0..plan.clients {
        tokio::spawn(Arc::clone(&world).client(dice.fork()));
    }
    tokio::time::timeout(plan.chaos, world.storm(dice.fork()))
        .await
        .unwrap_or_default();
    world.end(dice).await;
}

impl World {
    fn start_gateway(&self) {
        let id = self.started.fetch_add(1, Ordering::Relaxed);
        let gateway = Gateway::start(id, &self.plan, &self.cluster, &self.history);
        self.gateways.lock().push(gateway);
    }

    /// Takes a gateway out of service, if there is one.
    fn take_gateway(&self, dice: &mut Dice) -> Option<Gateway> {
        let mut gateways = self.gateways.lock();
        if gateways.is_empty() {
            return None;
        }
        let index = dice.between(0, gateways.len() as u64 - 1);
        Some(gateways.remove(usize::try_from(index).ok()?))
    }

    /// One subscriber that comes again and again while things go wrong.
    async fn client(self: Arc<Self>, mut dice: Dice) {
        loop {
            let pause = dice.ms(0, 3000);
            tokio::time::sleep(pause).await;
            if self.calm.load(Ordering::Relaxed) {
                return;
            }
            if self.away.load(Ordering::Relaxed) {
                continue;
            }
            let mut manner = Manner::draw(&mut dice, self.plan.malice);
            if dice.chance(self.plan.pulls) {
                manner = manner.pulling(&mut dice);
            }
            self.session(&mut dice, manner).await;
        }
    }

    /// One that acks everything and stays.
    async fn patient(self: Arc<Self>, mut dice: Dice) {
        loop {
            let manner = Manner::patient(&mut dice);
            self.session(&mut dice, manner).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn session(&self, dice: &mut Dice, manner: Manner) {
        let gateways = self.gateways.lock().clone();
        if gateways.is_empty() {
            return;
        }
        let gateway = dice.pick(&gateways);
        let id = self.sessions.fetch_add(1, Ordering::Relaxed);
        let deadline = self.plan.subscription.policy.ack_deadline;
        let times = (deadline, self.plan.subscription.lease.beat);
        let leave = self.leave.lock().clone();
        let history = self.history.clone();
        subscriber::run(id, gateway, manner, dice.fork(), history, times, leave).await;
    }

    /// Does harm until it is stopped.
    async fn storm(self: &Arc<Self>, mut dice: Dice) {
        loop {
            let pause = dice.ms(200, 4000);
            tokio::time::sleep(pause).await;
            let partition = i32::try_from(dice.between(0, 3)).unwrap_or(0) % self.plan.partitions;
            if dice.chance(30) {
                let count = dice.between(1, 20);
                self.cluster.append(partition, count);
            }
            if !dice.chance(self.plan.storm) {
                continue;
            }
            self.harm(&mut dice, partition).await;
        }
    }

    async fn harm(self: &Arc<Self>, dice: &mut Dice, partition: i32) {
        let say = |what: String| self.history.push(Event::Chaos(what));
        match dice.weighted(&[20, 8, 8, 8, 6, 10, 10, 6, 4, 10, 15]) {
            0 => {
                say("partitions move".to_owned());
                self.cluster.rebalance();
            }
            1 => self.cluster.fence_one(),
            2 => {
                if let Some(gateway) = self.take_gateway(dice) {
                    gateway.kill(&self.cluster, &self.history);
                    self.start_later(dice);
                }
            }
            3 => {
                if let Some(gateway) = self.take_gateway(dice) {
                    let drain = dice.ms(0, 5000);
                    let history = self.history.clone();
                    tokio::spawn(async move { gateway.stop(drain, &history).await });
                    self.start_later(dice);
                }
            }
            4 => {
                let how_long = dice.ms(500, 20_000);
                say(format!("the broker is silent for {how_long:?}"));
                self.cluster.silence(how_long);
            }
            5 => {
                let percent = dice.count(20, 100);
                say(format!("commits fail: {percent} %"));
                self.cluster.weather(|w| w.commits_fail = percent);
            }
            6 => {
                let percent = dice.count(20, 100);
                say(format!("dead letters fail: {percent} %"));
                self.cluster.weather(|w| w.letters_fail = percent);
            }
            7 => {
                let (commits, letters) = (dice.between(0, 4000), dice.between(0, 20_000));
                say(format!(
                    "commits take {commits} ms, dead letters {letters} ms"
                ));
                self.cluster.weather(|w| {
                    w.commits_take = commits;
                    w.letters_take = letters;
                });
            }
            8 => self.cluster.trim(),
            9 => self.exodus().await,
            _ => {
                say("the weather clears up".to_owned());
                self.cluster.heal();
                self.cluster.append_marker(partition);
            }
        }
    }

    fn start_later(self: &Arc<Self>, dice: &mut Dice) {
        let world = Arc::clone(self);
        let after = dice.ms(0, 10_000);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            if !world.calm.load(Ordering::Relaxed) {
                world.start_gateway();
            }
        });
    }

    /// All subscribers go; once the group is empty, another tool moves it.
    async fn exodus(&self) {
        self.history
            .push(Event::Chaos("subscribers stay away".to_owned()));
        self.away.store(true, Ordering::Relaxed);
        self.leave.lock().cancel();
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end && !self.cluster.reset() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        *self.leave.lock() = CancellationToken::new();
        self.away.store(false, Ordering::Relaxed);
    }

    /// Nothing goes wrong any more: everything has to be passed.
    async fn end(self: &Arc<Self>, mut dice: Dice) {
        self.calm.store(true, Ordering::Relaxed);
        self.cluster.heal();
        self.history.push(Event::Calm);
        self.leave.lock().cancel();
        *self.leave.lock() = CancellationToken::new();
        if self.gateways.lock().is_empty() {
            self.start_gateway();
        }
        let least = u64::from(self.plan.subscription.min_subscribers);
        if least > 1 {
            // Spread over gateways there might be too few at each, which is as asked.
            let others = self.gateways.lock().split_off(1);
            for gateway in others {
                let history = self.history.clone();
                tokio::spawn(async move { gateway.stop(Duration::ZERO, &history).await });
            }
        }
        let patients = self.plan.clients.min(3).max(least);
        for _ in 0..patients {
            tokio::spawn(Arc::clone(self).patient(dice.fork()));
        }
        let deadline = Instant::now() + CALM;
        while !self.cluster.is_done() {
            if Instant::now() > deadline {
                let where_it_is = self.cluster.describe();
                self.history.push(Event::Finished(Some(where_it_is)));
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.history.push(Event::Finished(None));
        let gateways = std::mem::take(&mut *self.gateways.lock());
        for gateway in gateways {
            gateway.stop(Duration::from_secs(1), &self.history).await;
        }
    }
}
