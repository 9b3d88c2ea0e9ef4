//! What a seed fixes: who moves what, and who is killed after how many commits. Pure.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::Role;

/// What every account begins with.
pub const OPENING_BALANCE: u64 = 1_000;

/// The most that one transfer moves. A tenth of an account, so that few run dry.
pub const MAX_AMOUNT: u64 = 100;

/// What a demo is asked to do. Equal shapes make equal plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number that everything random follows from.
    pub seed: u64,
    /// How many processes commit.
    pub writers: u16,
    /// How many accounts there are.
    pub accounts: u32,
    /// How many transfers all writers make together.
    pub transfers: u32,
}

/// An account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account(pub u32);

impl Account {
    /// The key of its row.
    pub fn key(self) -> String {
        format!("account/{:06}", self.0)
    }

    /// Reads a key back. `None` for any other key.
    pub fn from_key(key: &str) -> Option<Account> {
        let account = Account(key.strip_prefix("account/")?.parse().ok()?);
        (account.key() == key).then_some(account)
    }
}

/// Which transfer, of which writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId {
    /// The writer, counted from zero.
    pub writer: u16,
    /// Which of its transfers, counted from zero.
    pub number: u32,
}

impl TransferId {
    /// The key of the row that it leaves.
    pub fn key(self) -> String {
        format!("transfer/{:02}/{:07}", self.writer, self.number)
    }

    /// Reads a key back. `None` for any other key.
    pub fn from_key(key: &str) -> Option<TransferId> {
        let (writer, number) = key.strip_prefix("transfer/")?.split_once('/')?;
        let id = TransferId { writer: writer.parse().ok()?, number: number.parse().ok()? };
        (id.key() == key).then_some(id)
    }
}

/// What one transfer moves. Where the account it comes from has less, it moves what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Where the money comes from.
    pub from: Account,
    /// Where it goes, never the same account.
    pub to: Account,
    /// How much.
    pub amount: u64,
}

/// One kill, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Who dies.
    pub role: Role,
    /// After this many commits of all writers were seen. Seconds would not be the same twice.
    pub after_commits: u32,
}

/// Everything a seed fixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    shape: Shape,
    kills: [Kill; 2],
}

impl Plan {
    /// The plan of `shape`.
    pub fn new(shape: Shape) -> Plan {
        let mut numbers = StdRng::seed_from_u64(shape.seed);
        let mut between = |low: u32, high: u32| {
            let part = numbers.random_range(low..high);
            u32::try_from(u64::from(shape.transfers) * u64::from(part) / 100).unwrap_or(shape.transfers)
        };
        // In the middle of the run, where both before and after have something to lose, and never both at once.
        let (writer_dies, folder_dies) = (between(25, 45), between(55, 75));
        let writer = numbers.random_range(0..shape.writers.max(1));
        let kills = [
            Kill { role: Role::Writer(writer), after_commits: writer_dies },
            Kill { role: Role::Folder, after_commits: folder_dies },
        ];
        Plan { shape, kills }
    }

    /// What it was made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Who dies when, in this order.
    pub fn kills(&self) -> &[Kill] {
        &self.kills
    }

    /// The next kill that is due once `commits` were seen, when `made` were made before.
    pub fn due(&self, made: usize, commits: u64) -> Option<Kill> {
        self.kills.get(made).copied().filter(|kill| u64::from(kill.after_commits) <= commits)
    }

    /// How many transfers `writer` makes: an equal share, the first ones one more where it does not divide.
    pub fn transfers_of(&self, writer: u16) -> u32 {
        let writers = u32::from(self.shape.writers.max(1));
        match u32::from(writer) {
            writer if writer >= writers => 0,
            writer => self.shape.transfers / writers + u32::from(writer < self.shape.transfers % writers),
        }
    }

    /// Every transfer that there shall be.
    pub fn ids(&self) -> impl Iterator<Item = TransferId> + '_ {
        (0..self.shape.writers)
            .flat_map(|writer| (0..self.transfers_of(writer)).map(move |number| TransferId { writer, number }))
    }

    /// What `id` moves. Any one can be asked for alone, so a writer goes on where a killed one stopped.
    pub fn transfer(&self, id: TransferId) -> Transfer {
        let place = (u64::from(id.writer) << 32) | u64::from(id.number);
        // An odd factor is a bijection, so no two transfers of one seed share a generator.
        let mut numbers = StdRng::seed_from_u64(self.shape.seed ^ (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let accounts = self.shape.accounts.max(2);
        let from = numbers.random_range(0..accounts);
        let to = (from + numbers.random_range(1..accounts)) % accounts;
        Transfer { from: Account(from), to: Account(to), amount: numbers.random_range(1..=MAX_AMOUNT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(seed: u64) -> Shape {
        Shape { seed, writers: 4, accounts: 10, transfers: 1_003 }
    }

    #[test]
    fn a_seed_fixes_everything_and_another_seed_something_else() {
        let all = |plan: &Plan| plan.ids().map(|id| plan.transfer(id)).collect::<Vec<_>>();
        let (one, same, other) = (Plan::new(shape(7)), Plan::new(shape(7)), Plan::new(shape(8)));
        assert_eq!((one.kills(), all(&one)), (same.kills(), all(&same)));
        assert_ne!(all(&one), all(&other));
    }

    #[test]
    fn the_writers_share_all_transfers() {
        let plan = Plan::new(shape(1));
        assert_eq!([0, 1, 2, 3, 4].map(|writer| plan.transfers_of(writer)), [251, 251, 251, 250, 0]);
        assert_eq!(plan.ids().count(), 1_003);
    }

    #[test]
    fn money_always_changes_hands() {
        for seed in 0..20 {
            let plan = Plan::new(Shape { accounts: 2, ..shape(seed) });
            for transfer in plan.ids().map(|id| plan.transfer(id)) {
                assert_ne!(transfer.from, transfer.to);
                assert!(transfer.from.0 < 2 && transfer.to.0 < 2 && (1..=MAX_AMOUNT).contains(&transfer.amount));
            }
        }
    }

    #[test]
    fn a_writer_and_then_the_folder_die_in_the_middle_of_every_run() {
        for seed in 0..200 {
            for transfers in [20, 2_000, 1_000_000] {
                let plan = Plan::new(Shape { transfers, ..shape(seed) });
                let [writer, folder] = plan.kills;
                assert!(matches!(writer.role, Role::Writer(0..4)));
                assert_eq!(folder.role, Role::Folder);
                assert!(0 < writer.after_commits && writer.after_commits < folder.after_commits);
                assert!(folder.after_commits < transfers);
            }
        }
    }

    #[test]
    fn kills_are_due_in_their_order_once_their_commits_were_seen() {
        let plan = Plan::new(shape(3));
        let [writer, folder] = plan.kills;
        assert_eq!(plan.due(0, u64::from(writer.after_commits) - 1), None);
        assert_eq!(plan.due(0, u64::from(writer.after_commits)), Some(writer));
        assert_eq!(plan.due(1, u64::from(writer.after_commits)), None);
        assert_eq!(plan.due(1, u64::from(folder.after_commits) + 5), Some(folder));
        assert_eq!(plan.due(2, u64::MAX), None);
    }

    #[test]
    fn keys_read_back_and_sort_as_numbers_do() {
        let id = TransferId { writer: 3, number: 41 };
        assert_eq!(TransferId::from_key(&id.key()), Some(id));
        assert!(id.key() < TransferId { writer: 3, number: 100 }.key());
        assert_eq!(Account::from_key(&Account(5).key()), Some(Account(5)));
        for key in ["account/5", "account/", "transfer/3/41", "transfer/03", ""] {
            assert_eq!((TransferId::from_key(key), Account::from_key(key)), (None, None), "{key}");
        }
    }
}
