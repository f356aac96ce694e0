//! What was measured beside its bound.

use tokio::sync::Mutex;

/// One figure.
struct Row {
    what: String,
    value: f64,
    bound: f64,
    /// Whether the bound is the most that it may be, or the least.
    most: bool,
}

impl Row {
    fn holds(&self) -> bool {
        // What is not a number holds nothing.
        if self.most { self.value <= self.bound } else { self.value >= self.bound }
    }
}

/// The figures of one scenario.
pub struct Table {
    title: &'static str,
    rows: Vec<Row>,
}

impl Table {
    pub fn new(title: &'static str) -> Table {
        Table { title, rows: Vec::new() }
    }

    /// A figure that may be as high as this.
    pub fn most(&mut self, what: impl Into<String>, value: f64, bound: f64) {
        self.rows.push(Row { what: what.into(), value, bound, most: true });
    }

    /// A figure that must be at least this.
    pub fn least(&mut self, what: impl Into<String>, value: f64, bound: f64) {
        self.rows.push(Row { what: what.into(), value, bound, most: false });
    }

    fn print(&self) {
        println!("\n{}", self.title);
        println!("| measured | value | bound | |\n|---|---|---|---|");
        for row in &self.rows {
            let (sign, word) = (if row.most { "≤" } else { "≥" }, if row.holds() { "" } else { "broken" });
            println!("| {} | {:.3} | {sign} {:.3} | {word} |", row.what, row.value, row.bound);
        }
    }

    fn holds(&self) -> bool {
        self.rows.iter().all(Row::holds)
    }
}

/// One scenario at a time: they measure time, and would take it from each other.
static TURN: Mutex<()> = Mutex::const_new(());

/// Plays a scenario, prints what came of it, and fails where a bound is broken
/// twice: once, something else on this machine may have been in the way.
pub async fn holds(play: impl AsyncFn() -> Table) {
    let _turn = TURN.lock().await;
    if cfg!(debug_assertions) {
        println!("this is a debug build, which distorts what is measured here");
    }
    let first = play().await;
    first.print();
    if first.holds() {
        return;
    }
    println!("played again");
    let second = play().await;
    second.print();
    assert!(second.holds(), "{}: a bound is broken, twice", second.title);
}

#[test]
fn bounds_are_held_or_broken() {
    let table = |value| {
        let mut table = Table::new("t");
        table.most("at most", value, 1.0);
        table.least("at least", 2.0, 2.0);
        table
    };
    assert!(table(1.0).holds() && !table(1.01).holds() && !table(f64::NAN).holds());
}
