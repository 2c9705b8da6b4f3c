//! A statement as a client has it.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use crate::model::shape::Shape;
use crate::model::statement::{Carried, Statement};

/// A statement as a client has it: with the shape that the client was told last.
#[derive(Debug)]
pub struct Held {
    /// The statement as it was read when the client prepared it; other clients may share it.
    statement: Rc<Statement>,
    /// The same with the types of the parameters that the client was told, once a server has found others.
    typed: OnceCell<Rc<Statement>>,
    /// The statement as the last server read it that it was sent to.
    there: RefCell<Rc<Statement>>,
    shape: Cell<Shape>,
}

impl Held {
    /// A statement that its client has just prepared: it was told nothing.
    pub fn new(statement: Rc<Statement>) -> Rc<Self> {
        Self::told(statement, Shape::default())
    }

    /// A statement of which its client was told this shape.
    pub fn told(statement: Rc<Statement>, shape: Shape) -> Rc<Self> {
        let (there, typed) = (RefCell::new(statement.clone()), OnceCell::new());
        Rc::new(Self { statement, typed, there, shape: Cell::new(shape) })
    }

    /// The statement as it was read when the client prepared it; other clients may share it.
    pub fn statement(&self) -> &Rc<Statement> {
        self.typed.get().unwrap_or(&self.statement)
    }

    /// Notes the statement that names the types of the parameters which the client was told: as in PostgreSQL, these stay.
    /// Whether it is the first.
    pub fn keeps_types(&self, typed: Rc<Statement>) -> bool {
        self.goes_as(typed.clone());
        self.typed.set(typed).is_ok()
    }

    /// The statement as the last server read it that it was sent to.
    pub fn there(&self) -> Rc<Statement> {
        self.there.borrow().clone()
    }

    /// Notes the statement that is sent to a server.
    pub fn goes_as(&self, statement: Rc<Statement>) {
        *self.there.borrow_mut() = statement;
    }

    /// Whether this is the statement, as it was prepared or as it was sent last.
    pub fn is(&self, statement: &Rc<Statement>) -> bool {
        [&self.statement, self.statement(), &*self.there.borrow()].into_iter().any(|of| Rc::ptr_eq(of, statement))
    }

    /// The shape that the client was told.
    pub fn shape(&self) -> Shape {
        self.shape.get()
    }

    /// Notes what the client is told.
    pub fn tell(&self, shape: Shape) {
        self.shape.set(self.shape.get().told_again(shape));
    }

    /// The statement as it moves with its client.
    pub fn carry(&self) -> Carried {
        self.statement().carry(self.shape())
    }
}

impl Deref for Held {
    type Target = Rc<Statement>;

    fn deref(&self) -> &Rc<Statement> {
        self.statement()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::lexing::Lexing;
    use crate::model::shape::Fit;
    use crate::model::statement::Statements;

    #[test]
    fn the_shape_told_last_counts_and_two_types_of_a_parameter_fit_no_copy() {
        let shape = |parameters, columns| Shape { parameters, columns };
        let [one, two] = [1, 2].map(|types| shape(Some(types), None));
        let [narrow, wide] = [3, 4].map(|columns| shape(None, Some(columns)));
        let held = Held::new(Statements::default().share(b"", 7, Lexing::Conforming));
        held.tell(one.with(narrow));
        held.tell(wide);
        assert_eq!(held.shape(), one.with(wide));
        held.tell(two);
        held.tell(one);
        for parameters in [one, two] {
            assert_eq!(held.shape().fit(parameters.with(wide)), Fit::Parameters, "its values may be of either type");
        }
    }

    #[test]
    fn a_statement_is_known_as_it_was_prepared_and_as_it_was_sent() {
        let mut statements = Statements::default();
        let [one, two, three] = [1, 2, 3].map(|reading| statements.share(b"SELECT 1", reading, Lexing::Conforming));
        let held = Held::new(one.clone());
        assert!(held.is(&one) && Rc::ptr_eq(&held.there(), &one));
        held.goes_as(two.clone());
        assert!(held.is(&one) && held.is(&two) && !held.is(&three));
        assert!(Rc::ptr_eq(&held.there(), &two) && Rc::ptr_eq(held.statement(), &one));
        assert!(held.keeps_types(three.clone()) && held.is(&one) && !held.is(&two) && held.is(&three));
        assert!(Rc::ptr_eq(&held.there(), &three) && Rc::ptr_eq(held.statement(), &three));
    }
}
