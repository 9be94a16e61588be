//! Orders that look like a shop's, the same ones for the same seed, and here and
//! there one that is broken.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// One order in this many is broken on average.
const POISON_IN: u64 = 100;

/// When the shop opened: 1 March 2026, 08:00 UTC, in seconds since the Unix epoch.
const OPENED: u64 = 1_772_352_000;

const CUSTOMERS: u64 = 400;

const CURRENCIES: [&str; 4] = ["EUR", "USD", "GBP", "CHF"];

/// Article number, name and price in cents.
const ARTICLES: [(&str, &str, u64); 10] = [
    ("TEA-100", "Darjeeling first flush, 100 g", 1290),
    ("TEA-250", "Assam broken, 250 g", 1450),
    ("COF-500", "Espresso beans, 500 g", 1190),
    ("COF-FIL", "Paper filters, 100 pieces", 320),
    ("MUG-BLU", "Mug, blue glaze", 1600),
    ("MUG-SET", "Mugs, set of four", 5400),
    ("POT-CST", "Teapot, cast iron", 6900),
    ("KET-ELC", "Kettle, 1.7 l", 4990),
    ("HON-500", "Forest honey, 500 g", 980),
    ("BIS-GNG", "Ginger biscuits, 200 g", 410),
];

/// An order as it stands in a record's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    /// `ORD-` and its number.
    pub(super) order: String,
    pub(super) customer: String,
    pub(super) placed_at: String,
    pub(super) items: Vec<Item>,
    /// Of all items together.
    pub(super) amount: f64,
    pub(super) currency: String,
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) sku: String,
    pub(super) name: String,
    pub(super) quantity: u64,
    pub(super) unit_price: f64,
}

/// A record to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// The customer, so that one customer's orders share a partition.
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    /// The value is no JSON.
    pub(super) poison: bool,
}

/// An endless sequence of orders.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    random: fastrand::Rng,
    number: u64,
    placed: u64,
}

impl Orders {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            number: 0,
            placed: OPENED,
        }
    }

    fn order(&mut self) -> Order {
        self.number += 1;
        self.placed += self.random.u64(1..90);
        let customer = self.random.u64(0..CUSTOMERS);
        let lines = self.random.usize(1..=4);
        let articles = self.random.choose_multiple(ARTICLES, lines);
        let mut cents = 0;
        let items = articles
            .into_iter()
            .map(|(sku, name, price)| {
                let quantity = self.random.u64(1..=3);
                cents += quantity * price;
                Item {
                    sku: sku.to_owned(),
                    name: name.to_owned(),
                    quantity,
                    unit_price: money(price),
                }
            })
            .collect();
        let placed_at = UNIX_EPOCH + Duration::from_secs(self.placed);
        // A customer always pays in the same currency.
        let currency = usize::try_from(customer).unwrap_or_default() % CURRENCIES.len();
        Order {
            order: format!("ORD-{:06}", self.number),
            customer: format!("C-{customer:04}"),
            placed_at: humantime::format_rfc3339_seconds(placed_at).to_string(),
            items,
            amount: money(cents),
            currency: CURRENCIES
                .get(currency)
                .copied()
                .unwrap_or("EUR")
                .to_owned(),
        }
    }
}

impl Iterator for Orders {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        let order = self.order();
        let mut value = serde_json::to_vec(&order).ok()?;
        let poison = self.random.u64(0..POISON_IN) == 0;
        if poison {
            // Cut off, as by a producer that crashed or a field that was too short.
            let cut = self.random.usize(value.len() / 4..value.len() - 1);
            value.truncate(cut);
        }
        Some(Sample {
            key: order.customer,
            value,
            poison,
        })
    }
}

impl Order {
    /// Its number, from 1.
    pub(super) fn number(&self) -> Option<u64> {
        self.order.strip_prefix("ORD-")?.parse().ok()
    }
}

fn money(cents: u64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        reason = "orders cost less than ninety trillion"
    )]
    let cents = cents as f64;
    cents / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_makes_the_same_orders_and_another_seed_others() {
        let orders = |seed| Orders::new(seed).take(50).collect::<Vec<_>>();
        assert_eq!(orders(1), orders(1));
        assert_ne!(orders(1), orders(2));
    }

    #[test]
    fn about_one_in_a_hundred_is_no_json_and_the_rest_are_sound_orders() {
        let mut poison = 0;
        for (number, sample) in (1..).zip(Orders::new(7).take(10_000)) {
            let order = serde_json::from_slice::<Order>(&sample.value);
            assert_eq!(order.is_err(), sample.poison, "{number}");
            let Ok(order) = order else {
                poison += 1;
                continue;
            };
            assert_eq!(order.number(), Some(number));
            assert_eq!(order.customer, sample.key);
            let sum: f64 = order
                .items
                .iter()
                .map(|it| it.unit_price * it.quantity as f64)
                .sum();
            assert!((order.amount - sum).abs() < 0.001, "{order:?}");
            assert!(!order.items.is_empty(), "{order:?}");
            assert!(order.placed_at.starts_with("2026-"), "{order:?}");
        }
        assert!((50..200).contains(&poison), "{poison}");
    }

    #[test]
    fn first_thousand_orders_of_the_default_seed_hold_some_poison() {
        assert!(Orders::new(7).take(1_000).any(|sample| sample.poison));
    }
}
