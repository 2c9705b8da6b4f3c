//! The prepared statements that a server connection has.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use classify::Same;

use crate::model::keys::ClientKey;
use crate::model::shape::Shape;
use crate::model::statement::{Name, Statement, StatementId};

/// One copy of a statement on a server connection: what one Parse has made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerCopy {
    /// The number of the copy on its connection.
    pub number: u64,
    /// Its shape, as far as the server has described it.
    pub shape: Shape,
}

/// A statement as a server connection knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// The id of the statement.
    pub id: StatementId,
    /// The generation of the statement.
    pub generation: u64,
    /// Whether the server may have lost the statement.
    doubtful: bool,
    /// The client that has used the copy under other settings: the server may have read the text anew under them.
    reread_by: Option<ClientKey>,
    /// Whether the copy is closed and prepared again at its next use.
    stale: bool,
    /// The number of the first copy that takes the place of a stale one by the same name, until the server has made one
    /// of them; then 0. If a Parse is skipped, the name is still the stale copy's: so each use prepares the statement
    /// until then.
    stand_in: u64,
    /// The time of its last use, by the clock of its connection.
    used: u64,
    copy: ServerCopy,
}

impl Prepared {
    /// Its name on the server.
    pub fn name(&self) -> Name {
        self.id.name(self.generation)
    }

    /// Whether the server has the current generation. A generation that was prepared elsewhere is newer than the one
    /// known here; a doubtful statement must be prepared afresh.
    fn is(&self, statement: &Statement) -> bool {
        statement.is_at_least(self.generation + u64::from(self.doubtful));
        statement.generation.get() == self.generation && !self.stale && self.stand_in == 0
    }
}

/// The statements that a server connection knows; the one used longest ago is closed first.
#[derive(Debug, Default)]
pub struct Known {
    by_id: HashMap<StatementId, Prepared, BuildHasherDefault<Same>>,
    clock: u64,
}

impl Known {
    /// The server's copy of the current generation of a statement, if the server knows that; counts as a use.
    pub fn uses(&mut self, statement: &Statement) -> Option<ServerCopy> {
        self.clock += 1;
        let clock = self.clock;
        self.by_id.get_mut(&statement.id).filter(|prepared| prepared.is(statement)).map(|prepared| {
            prepared.used = clock;
            prepared.copy
        })
    }

    /// The statement as it is known, if the server knows its current generation.
    pub fn get(&self, statement: &Statement) -> Option<Prepared> {
        self.by_id.get(&statement.id).filter(|prepared| prepared.is(statement)).copied()
    }

    /// Notes a shape by which the server has described the copy of this number of a statement.
    pub fn described(&mut self, statement: &Statement, number: u64, shape: Shape) {
        let Some(prepared) = self.by_id.get_mut(&statement.id).filter(|prepared| prepared.copy.number == number) else {
            return;
        };
        prepared.copy.shape = prepared.copy.shape.with(shape);
        if prepared.is(statement) {
            statement.described(prepared.copy.shape);
        }
    }

    /// A new copy, about which nothing is known.
    pub fn new_copy(&mut self) -> ServerCopy {
        self.clock += 1;
        ServerCopy { number: self.clock, shape: Shape::default() }
    }

    /// Whether the server knows the current generation of a statement.
    pub fn has(&self, statement: &Statement) -> bool {
        self.by_id.get(&statement.id).is_some_and(|prepared| prepared.is(statement))
    }

    /// Notes that a statement is being prepared; gives the copy, and the statements that must be closed first: an earlier
    /// copy of it, and those beyond `limit`.
    pub fn add(&mut self, statement: &Statement, limit: usize) -> (ServerCopy, Vec<Prepared>) {
        let copy = self.new_copy();
        let (id, generation) = (statement.id, statement.generation.get());
        let before = self.by_id.get(&id).filter(|before| before.generation == generation);
        let stand_in = match before {
            Some(before) if before.stale => copy.number,
            Some(before) => before.stand_in,
            None => 0,
        };
        let used = self.clock;
        let prepared =
            Prepared { id, generation, doubtful: false, reread_by: None, stale: false, stand_in, used, copy };
        let before = self.by_id.insert(id, prepared);
        let mut closed = Vec::from_iter(before);
        while self.by_id.len() > limit.max(1) {
            let oldest = self.by_id.values().min_by_key(|prepared| prepared.used).map(|prepared| prepared.id);
            let Some(oldest) = oldest.and_then(|oldest| self.by_id.remove(&oldest)) else { break };
            closed.push(oldest);
        }
        (copy, closed)
    }

    /// Notes that the server has made the copy of this number of a statement, or a later one.
    pub fn is_made(&mut self, statement: &Statement, number: u64) {
        if let Some(prepared) = self.by_id.get_mut(&statement.id).filter(|prepared| prepared.stand_in <= number) {
            prepared.stand_in = 0;
        }
    }

    /// Forgets a statement: it was not prepared after all.
    pub fn remove(&mut self, statement: &Statement) {
        self.by_id.remove(&statement.id);
    }

    /// Notes that a statement was not closed after all.
    pub fn restore(&mut self, prepared: Prepared) {
        self.by_id.entry(prepared.id).or_insert(prepared);
    }

    /// Notes that a client uses the copy under settings by which the text means something else. PostgreSQL reads a text
    /// anew when the search_path has changed since it read it, or when its cached plan was given up. Whether the copy
    /// may be used: not if another client has used it so.
    pub fn may_reread(&mut self, statement: &Statement, by: ClientKey) -> bool {
        let prepared = self.by_id.get_mut(&statement.id).filter(|prepared| prepared.is(statement));
        prepared.is_some_and(|prepared| *prepared.reread_by.get_or_insert(by) == by)
    }

    /// Has the next use of a statement prepare it afresh, if the server may have read its text under other settings.
    pub fn renew_reread(&mut self, statement: &Statement) {
        if let Some(prepared) = self.by_id.get_mut(&statement.id) {
            prepared.stale |= prepared.reread_by.is_some();
        }
    }

    /// Notes that the server may have lost all of them: the next use of each prepares it afresh, by another name.
    pub fn doubt(&mut self) {
        self.by_id.values_mut().for_each(|prepared| prepared.doubtful = true);
    }

    /// Forgets all statements.
    pub fn clear(&mut self) {
        self.by_id.clear();
    }

    /// The names of all statements, and whether the server may have lost them.
    pub fn names(&self) -> impl Iterator<Item = (Name, bool)> {
        self.by_id.values().map(|prepared| (prepared.name(), prepared.doubtful))
    }

    /// The number of statements.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::model::lexing::Lexing;
    use crate::model::slots::Slots;
    use crate::model::statement::Statements;

    fn statement(statements: &mut Statements, text: &str) -> Rc<Statement> {
        statements.share(text.as_bytes(), 0, Lexing::Conforming)
    }

    #[test]
    fn a_copy_that_was_read_anew_is_its_clients_alone() {
        let mut clients = Slots::default();
        let [first, second] = [(), ()].map(|client| clients.insert(client));
        let (mut statements, mut known) = (Statements::default(), Known::default());
        let one = statement(&mut statements, "1");
        known.add(&one, 9);
        known.renew_reread(&one);
        assert!(known.has(&one), "nobody has used it under other settings");
        assert!(known.may_reread(&one, first) && known.may_reread(&one, first));
        assert!(!known.may_reread(&one, second));
        known.renew_reread(&one);
        assert!(!known.has(&one) && known.uses(&one).is_none() && !known.may_reread(&one, first));
        let (_, closed) = known.add(&one, 9);
        assert_eq!(closed.iter().map(Prepared::name).collect::<Vec<_>>(), [one.name()], "closed before it is prepared");
        assert!(!known.has(&one), "until the server has made it");
        known.is_made(&one, u64::MAX);
        assert!(known.has(&one) && known.may_reread(&one, second));
    }

    #[test]
    fn what_takes_the_place_of_a_stale_copy_is_relied_on_when_it_is_made() {
        let mut clients = Slots::default();
        let client = clients.insert(());
        let (mut statements, mut known) = (Statements::default(), Known::default());
        let one = statement(&mut statements, "1");
        let (old, _) = known.add(&one, 9);
        assert!(known.has(&one), "else its name is unknown to the server, and the Bind fails");
        assert!(known.may_reread(&one, client));
        known.renew_reread(&one);
        let (first, _) = known.add(&one, 9);
        let (second, closed) = known.add(&one, 9);
        assert!(closed.len() == 1 && !known.has(&one) && known.uses(&one).is_none());
        known.is_made(&one, old.number);
        assert!(!known.has(&one), "the answer is that of the stale one");
        known.is_made(&one, first.number);
        assert!(known.has(&one) && known.uses(&one) == Some(second), "the first one is as good");
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let (mut statements, mut known) = (Statements::default(), Known::default());
        let [one, two, three] = ["1", "2", "3"].map(|text| statement(&mut statements, text));
        assert!(known.add(&one, 2).1.is_empty() && known.add(&two, 2).1.is_empty());
        assert!(known.uses(&one).is_some());
        let (_, closed) = known.add(&three, 2);
        assert_eq!(closed.iter().map(Prepared::name).collect::<Vec<_>>(), [two.name()]);
        assert!(known.has(&one) && !known.has(&two) && known.has(&three));
    }

    #[test]
    fn what_was_not_closed_after_all_is_known_and_goes_first() {
        let (mut statements, mut known) = (Statements::default(), Known::default());
        let [one, two, three] = ["1", "2", "3"].map(|text| statement(&mut statements, text));
        known.add(&one, 2);
        known.add(&two, 2);
        let (_, closed) = known.add(&three, 2);
        // An error comes first: neither request has been done, and the one sent last is undone first.
        known.remove(&three);
        closed.into_iter().for_each(|prepared| known.restore(prepared));
        assert!(known.has(&one) && known.has(&two) && !known.has(&three));
        assert_eq!(known.add(&three, 2).1.first().map(Prepared::name), Some(one.name()));
    }

    #[test]
    fn another_generation_takes_the_place_of_the_one_before() {
        let (mut statements, mut known) = (Statements::default(), Known::default());
        let one = statement(&mut statements, "1");
        let before = one.name();
        known.add(&one, 2);
        one.renew();
        assert!(known.uses(&one).is_none());
        let (_, closed) = known.add(&one, 2);
        assert_eq!((closed.len(), closed.first().map(Prepared::name).as_ref()), (1, Some(&before)));
        // The Parse fails in a unit that has skipped the Close: the server has the generation before.
        known.remove(&one);
        closed.into_iter().for_each(|prepared| known.restore(prepared));
        assert!(known.uses(&one).is_none());
        assert_eq!(known.add(&one, 2).1.first().map(Prepared::name), Some(before));
        assert!(known.uses(&one).is_some());
    }

    #[test]
    fn what_is_doubtful_is_prepared_by_another_name_and_closed_by_its_own() {
        let (mut statements, mut known) = (Statements::default(), Known::default());
        let one = statement(&mut statements, "1");
        let before = one.name();
        known.add(&one, 2);
        known.doubt();
        assert!(!known.has(&one) && known.uses(&one).is_none());
        assert_ne!(one.name(), before);
        assert_eq!(known.add(&one, 2).1.first().map(Prepared::name), Some(before));
        assert!(known.uses(&one).is_some());
    }

    #[test]
    fn all_workers_mean_the_same_by_a_name() {
        let (mut here, mut there, mut known) = (Statements::default(), Statements::default(), Known::default());
        let (ours, theirs) = (statement(&mut here, "1"), statement(&mut there, "1"));
        assert_eq!(ours.name(), theirs.name());
        known.add(&ours, 2);
        assert!(known.uses(&theirs).is_some(), "whoever has prepared it");
        // The generation that is prepared there is newer than the one known here.
        theirs.renew();
        assert!(known.uses(&theirs).is_none());
        known.add(&theirs, 2);
        assert!(known.uses(&ours).is_some());
        assert_eq!(ours.name(), theirs.name());
        // A doubtful statement stays doubtful on other workers.
        known.doubt();
        let third = statement(&mut Statements::default(), "1");
        assert!(known.uses(&third).is_none() && known.uses(&ours).is_none() && third.name() == ours.name());
    }

    #[test]
    fn copies_of_two_shapes_make_all_servers_prepare_afresh() {
        fn shape(known: &mut Known, statement: &Statement) -> Option<Shape> {
            known.uses(statement).map(|copy| copy.shape)
        }
        fn add(known: &mut Known, statement: &Statement) -> u64 {
            known.add(statement, 9);
            known.uses(statement).map_or(0, |copy| copy.number)
        }
        let mut statements = Statements::default();
        let one = statement(&mut statements, "SELECT * FROM t");
        let [mut here, mut there, mut third] = [(); 3].map(|()| Known::default());
        let [a, b] = [&mut here, &mut there].map(|known| add(known, &one));
        let [narrow, wide] = [1, 2].map(|columns| Shape { parameters: Some(1), columns: Some(columns) });
        here.described(&one, a, Shape { columns: None, ..narrow });
        here.described(&one, a, narrow);
        there.described(&one, b, narrow);
        assert_eq!((shape(&mut here, &one), shape(&mut there, &one)), (Some(narrow), Some(narrow)));
        // The table changes; a third server prepares the statement and describes it.
        let c = add(&mut third, &one);
        third.described(&one, c, wide);
        assert_eq!((shape(&mut here, &one), shape(&mut third, &one)), (None, None), "both are prepared afresh");
        let d = add(&mut third, &one);
        third.described(&one, d, wide);
        third.described(&one, c, narrow);
        here.described(&one, a, narrow);
        assert_eq!(shape(&mut third, &one), Some(wide), "answers about earlier copies say nothing about this one");
    }
}
