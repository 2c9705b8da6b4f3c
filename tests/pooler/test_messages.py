"""Orders of messages: each row of the table runs straight at PostgreSQL and through poolers of all kinds."""

import contextlib

import pytest

from tests.pooler import script
from tests.pooler.process import Pooler
from tests.pooler.raw import SYNC, Raw, direct, query

TABLE = r"""
# Names of statements

a unit that fails takes no Parse of the pooler's with it
> P s: SELECT 1 | S || P t: SELECT 2 | S | C t | S || B missing | B s | E | S | B s | E | S | B s | E | S
< 1 Z:I || 1 Z:I 3 Z:I || E:26000 Z:I 2 D:1 C:SELECT 1 Z:I 2 D:1 C:SELECT 1 Z:I
a name given behind an error does not exist
> P s: SELECT 1 | S || B missing | P u: SELECT 1 | S | B u | E | S | P u: SELECT 1 | S
< 1 Z:I || E:26000 Z:I E:26000 Z:I 1 Z:I
> B missing | P v: SELECT 7 | S | B v | E | S | P v: SELECT 7 | S
< E:26000 Z:I E:26000 Z:I 1 Z:I
a Close behind an error has not been
> P s: SELECT 1 | S || B missing | C s | S | B s | E | S | C s | S | B s | S
< 1 Z:I || E:26000 Z:I 2 D:1 C:SELECT 1 Z:I 3 Z:I E:26000 Z:I
what stands behind an Execute that fails names and closes nothing
> B zz | P b: SELECT 'phantom' | B b -> p | S | E p | C b | S | B b | E | S
< E:26000 Z:I E:34000 Z:I E:26000 Z:I
a name that is taken stays what it was
> P s: SELECT 1 | P s: SELECT 2 | S || B s | E | S || P s: SELECT 1 | S || P s: SELECT 2 | S || B s | E | S
< 1 E:42P05 Z:I || 2 D:1 C:SELECT 1 Z:I || E:42P05 Z:I || E:42P05 Z:I || 2 D:1 C:SELECT 1 Z:I
a Parse that fails leaves no name
> P s: SELECT nonsense | B s | E | S || B s | S || P s: SELECT 1 | P t: SELECT 1 | B t | E | S
< E:42703 Z:I || E:26000 Z:I || 1 1 2 D:1 C:SELECT 1 Z:I
clients have names of their own
> P s: SELECT 1 | S
< 1 Z:I
b> P s: SELECT 2 | S
b< 1 Z:I
> B s | E | S
< 2 D:1 C:SELECT 1 Z:I
b> B s | E | S
b< 2 D:2 C:SELECT 1 Z:I
> C s | S | B s | S
< 3 Z:I E:26000 Z:I
b> B s | E | S
b< 2 D:2 C:SELECT 1 Z:I
the statement without a name is a client's own
> P: SELECT 1 | S
< 1 Z:I
b> P: SELECT 2 | S
b< 1 Z:I
> B | E | S
< 2 D:1 C:SELECT 1 Z:I
b> Q SELECT 3 || B | S
b< T D:3 C:SELECT 1 Z:I || E:26000 Z:I
what forgets all in its unit leaves what stands behind it
> P s: SELECT 1 | S || Q DISCARD ALL | P s: SELECT 2 | S | B s | E | S || x DISCARD ALL | P s: SELECT 3 | B s | E | S
< 1 Z:I || C:DISCARD ALL Z:I 1 Z:I 2 D:2 C:SELECT 1 Z:I || 1 2 C:DISCARD ALL 1 2 D:3 C:SELECT 1 Z:I
> x DEALLOCATE ALL | P t: SELECT 1 | D t | S | B t | E | S | B s | S || B missing | x DISCARD ALL | S | B t | E | S
< 1 2 C:DEALLOCATE ALL 1 t T Z:I 2 D:1 C:SELECT 1 Z:I E:26000 Z:I || E:26000 Z:I 2 D:1 C:SELECT 1 Z:I
> B missing | x DEALLOCATE ALL | P u: SELECT 3 | S | B t | E | S | B u | S
< E:26000 Z:I 2 D:1 C:SELECT 1 Z:I E:26000 Z:I
DEALLOCATE ALL by a Query within a unit
> P s: SELECT 'new to the server' | Q DEALLOCATE ALL | P t: SELECT 2 | S || B t | E | S | B s | S
< 1 C:DEALLOCATE ALL Z:I 1 Z:I || 2 D:2 C:SELECT 1 Z:I E:26000 Z:I
DEALLOCATE ALL behind what the pooler answers itself
> P s: SELECT 1 | S || C s | Q DEALLOCATE ALL | P s: SELECT 2 | B s | E | S || B s | E | S
< 1 Z:I || 3 C:DEALLOCATE ALL Z:I 1 2 D:2 C:SELECT 1 Z:I || 2 D:2 C:SELECT 1 Z:I
> P t: SELECT 2 | Q DEALLOCATE ALL | P t: SELECT 2 | S | B t | E | S || B t | E | S || B s | S
< 1 C:DEALLOCATE ALL Z:I 1 Z:I 2 D:2 C:SELECT 1 Z:I || 2 D:2 C:SELECT 1 Z:I || E:26000 Z:I
> C t | Q DISCARD ALL | P s: SELECT 2 | S | B s | E | S
< 3 C:DISCARD ALL Z:I 1 Z:I 2 D:2 C:SELECT 1 Z:I
names behind DEALLOCATE ALL in a block are free
> P s: SELECT 'old' | B s | E | S || Q BEGIN || Q DEALLOCATE ALL; SELECT 1 | P s: SELECT 'new' | B s | E | S
< 1 2 D:old C:SELECT 1 Z:I || C:BEGIN Z:T || C:DEALLOCATE ALL T D:1 C:SELECT 1 Z:T 1 2 D:new C:SELECT 1 Z:T
> Q DEALLOCATE ALL | P s: SELECT 'newer' | B s | E | S || Q COMMIT
< C:DEALLOCATE ALL Z:T 1 2 D:newer C:SELECT 1 Z:T || C:COMMIT Z:I
DEALLOCATE frees what the protocol has prepared
> P s: SELECT 1 | S
< 1 Z:I
b> P s: SELECT 1 | S
b< 1 Z:I
> Q DEALLOCATE s || B s | E | S || P s: SELECT 2 | B s | E | S || Q BEGIN
< C:DEALLOCATE Z:I || E:26000 Z:I || 1 2 D:2 C:SELECT 1 Z:I || C:BEGIN Z:T
> B s | E | S | Q deallocate prepare s | B s | E | S || Q DEALLOCATE s || Q ROLLBACK
< 2 D:2 C:SELECT 1 Z:T C:DEALLOCATE Z:T E:26000 Z:E || E:25P02 Z:E || C:ROLLBACK Z:I
> P s: SELECT 3 | S | Q /* tidy */ DEALLOCATE "s"; | B s | S
< 1 Z:I C:DEALLOCATE Z:I E:26000 Z:I
b> B s | E | S | Q DEALLOCATE s
b< 2 D:1 C:SELECT 1 Z:I C:DEALLOCATE Z:I
DEALLOCATE behind a Close that was skipped finds its statement
> P s: SELECT 1 | S || B none | C s | S | Q DEALLOCATE s
< 1 Z:I || E:26000 Z:I C:DEALLOCATE Z:I
a Close frees a statement of SQL's PREPARE
@ in steps
> Q PREPARE s AS SELECT 1 || C s | S || Q EXECUTE s || Q PREPARE s AS SELECT 2 || Q EXECUTE s || Q DEALLOCATE s
< C:PREPARE Z:I || 3 Z:I || E:26000 Z:I || C:PREPARE Z:I || T D:2 C:SELECT 1 Z:I || C:DEALLOCATE Z:I

# The statement without a name, where its Parse is skipped

it stays when the one behind an error is skipped
> P: SELECT 1 | B | E | S || B missing | P: SELECT 2 | P: SELECT 3 | S || B | E | S || B missing | C | S || B | E | S
< 1 2 D:1 C:SELECT 1 Z:I || E:26000 Z:I || 2 D:1 C:SELECT 1 Z:I || E:26000 Z:I || 2 D:1 C:SELECT 1 Z:I
> B missing | Q SELECT 4 | P: SELECT 5 | S || B | E | S || C | S || B | E | S || P: SELECT 1 | B | E | S
< E:26000 Z:I || 2 D:1 C:SELECT 1 Z:I || 3 Z:I || E:26000 Z:I || 1 2 D:1 C:SELECT 1 Z:I
> P: SELEC | S || B | E | S
< E:42601 Z:I || E:26000 Z:I
several units skip a Parse
> P: SELECT 'first' | S | Dp nowhere | P: DELETE FROM t RETURNING 1 | S | Dp nowhere | P: SELECT 'third' | S | B | E | S
< 1 Z:I E:34000 Z:I E:34000 Z:I 2 D:first C:SELECT 1 Z:I
> P: SELECT 'first' | S | P: SELECT 1/0 | B | E | P: SELECT 'second' | S | B | E | S
< 1 Z:I 1 E:22012 Z:I E:22012 Z:I
> P: SELECT 'first' | S | Dp nowhere | F | P: SELECT 'second' | S | B | E | S
< 1 Z:I E:34000 Z:I 2 D:first C:SELECT 1 Z:I
a Flush shows the error, and the rest of the unit is skipped
> P: SELECT 'first' | B | E | S || P n: SELEC | H || P: SELECT 'skipped' | S || B | E | S || Dp nowhere | H
< 1 2 D:first C:SELECT 1 Z:I || E:42601 || Z:I || 2 D:first C:SELECT 1 Z:I || E:34000
> Q SELECT 1 | S || B | E | S
< Z:I || 2 D:first C:SELECT 1 Z:I
a Query that is skipped behind an error holds nobody up
> B missing | Q SELECT 1 | B missing | E | C | P t: SELECT 2 | C s | S
< E:26000 Z:I
b> Q SELECT 'other'
b< T D:other C:SELECT 1 Z:I
> D missing | Q SELECT 1 | S
< E:26000 Z:I
b> Q SELECT 'other'
b< T D:other C:SELECT 1 Z:I

# Transactions that have failed

a statement in a failed transaction is refused for that
> P s: SELECT 1 | S | P t: SELECT 2 | S || Q BEGIN | Q SELECT 1/0
< 1 Z:I 1 Z:I || C:BEGIN Z:T E:22012 Z:E
> B s | E | S | B none | E | S | B s | E | S | B none | E | S || Q ROLLBACK | B s | E | S
< E:25P02 Z:E E:26000 Z:E E:25P02 Z:E E:26000 Z:E || C:ROLLBACK Z:I 2 D:1 C:SELECT 1 Z:I
statements with a name in a failed transaction
> P s: SELECT 1 | S || Q BEGIN | x SELECT 1/0 | S || B s | E | S || D s | S || C s | S || B s | E | S
< 1 Z:I || C:BEGIN Z:T 1 E:22012 Z:E || E:25P02 Z:E || E:25P02 Z:E || 3 Z:E || E:26000 Z:E
> P r: ROLLBACK | S || B r | E | S || B s | E | S
< 1 Z:E || 2 C:ROLLBACK Z:I || E:26000 Z:I
# Portals

a portal of a name that an earlier unit has used
> B nowhere -> p | S | P: SET LOCAL my.p = 'x' | B -> p | E p | S | P: SET LOCAL my.p = 'x' | B -> p | E p | S | Q SELECT 'end'
< E:26000 Z:I 1 2 C:SET Z:I 1 2 C:SET Z:I T D:end C:SELECT 1 Z:I
b> Q SELECT 1
b< T D:1 C:SELECT 1 Z:I
portals of taken names are refused
> Q BEGIN | P a: SELECT 1 | P b: SELECT 2 | B a -> p | S || B b -> q | E q | B b -> p | E p | S
< C:BEGIN Z:T 1 1 2 Z:T || 2 D:2 C:SELECT 1 E:42P03 Z:E
> Q ROLLBACK | Q BEGIN | Q SAVEPOINT s | B a -> p | S | Q ROLLBACK TO s || B b -> p | E p | S | Q COMMIT
< C:ROLLBACK Z:I C:BEGIN Z:T C:SAVEPOINT Z:T 2 Z:T C:ROLLBACK Z:T || 2 D:2 C:SELECT 1 Z:T C:COMMIT Z:I

# Units that are ended by Flush before their Sync

prepared, and then used
> P s: SELECT 1 | D s | H || S || P t: SELECT 2 | D t | H || B t | E | B s | E | S || P: SELECT 3 | D | H || B | E | S
< 1 t T || Z:I || 1 t T || 2 D:2 C:SELECT 1 2 D:1 C:SELECT 1 Z:I || 1 t T || 2 D:3 C:SELECT 1 Z:I
> P d: DELETE FROM t | D d | H || B d | E | S || D s | H || D s | H || S
< 1 t n || 2 C:DELETE 0 Z:I || t T || t T || Z:I
taken, closed, and wrong
> P s: SELECT 1 | D s | H || P s: SELECT 1 | H || S || B s | S || C s | H || B s | S
< 1 t T || E:42P05 || Z:I || 2 Z:I || 3 || E:26000 Z:I
> P s: SELECT nonsense | D s | H || P s: SELECT 1 | B s | E | S || P s: SELECT 1 | B s | E | S || Q SELECT 'q'
< E:42703 || Z:I || 1 2 D:1 C:SELECT 1 Z:I || T D:q C:SELECT 1 Z:I
> P t: SELECT 1 | H || B nobody | H || S || B t | E | S || P: sel | H || Q SELECT 'skipped' | S || Q SELECT 'next'
< 1 || E:26000 || Z:I || 2 D:1 C:SELECT 1 Z:I || E:42601 || Z:I || T D:next C:SELECT 1 Z:I
a Query behind a Flush
> P s: SELECT 1 | D s | H || Q SELECT 'q' || B s | E | S || P: SELECT 1 | H || Q SELECT 'q' || B | E | S
< 1 t T || T D:q C:SELECT 1 Z:I || 2 D:1 C:SELECT 1 Z:I || 1 || T D:q C:SELECT 1 Z:I || E:26000 Z:I
bound, described and run one by one
> P s: SELECT 1 | B s | H || Dp | H || E | H || B s | E | H || S || H | Q SELECT 'q' || H | S || H | B s | H | E | H | S
< 1 2 || T || D:1 C:SELECT 1 || 2 D:1 C:SELECT 1 || Z:I || T D:q C:SELECT 1 Z:I || Z:I || 2 D:1 C:SELECT 1 Z:I
writes, and then an error
> x INSERT INTO t VALUES (1) | H || x SELECT count(*) FROM t | H || x SELECT 1/0 | H || S || Q SELECT count(*) FROM t
< 1 2 C:INSERT 0 1 || 1 2 D:1 C:SELECT 1 || 1 E:22012 || Z:I || T D:0 C:SELECT 1 Z:I
> x INSERT INTO t VALUES (1) | H || Cp | H || P s: SELECT 1 | D s | H || x SELECT 1/0 | S || Q SELECT count(*) FROM t
< 1 2 C:INSERT 0 1 || 3 || 1 t T || 1 E:22012 Z:I || T D:0 C:SELECT 1 Z:I
around transactions
> Q BEGIN || P s: SELECT 1 | D s | H || B s | E | S || Q COMMIT || P t: SELECT 1 | D t | H || x BEGIN | S || B t | E | S
< C:BEGIN Z:T || 1 t T || 2 D:1 C:SELECT 1 Z:T || C:COMMIT Z:I || 1 t T || 1 2 C:BEGIN Z:T || 2 D:1 C:SELECT 1 Z:T
> P u: SELECT nonsense | H || P u: SELECT 1 | B u | E | S || Q ROLLBACK || B s | E | S
< E:42703 || Z:E || C:ROLLBACK Z:I || 2 D:1 C:SELECT 1 Z:I

# Units that a Query ends

a Query ends its unit without a Sync
> P s: SELECT 1 | S || C s | Q SELECT 2 || C s | Q SELECT 2 FOR UPDATE || P t: SELECT 1 | Q BEGIN; SELECT 2; COMMIT
< 1 Z:I || 3 T D:2 C:SELECT 1 Z:I || 3 T D:2 C:SELECT 1 Z:I || 1 C:BEGIN T D:2 C:SELECT 1 C:COMMIT Z:I
> P u: SELECT 1 | D u | Q SELECT 1/0 || x SELECT 1 | Q SELECT 1/0 || C s | F || x SELECT 1 | H || Q COMMIT
< 1 t T E:22012 Z:I || 1 2 D:1 C:SELECT 1 E:22012 Z:I || 3 V Z:I || 1 2 D:1 C:SELECT 1 || C:COMMIT Z:I
b> Q SELECT 3 FOR UPDATE
b< T D:3 C:SELECT 1 Z:I
a Query ends its unit within a block too
> P s: SELECT 7 | S || P: SELECT 1 | Q BEGIN || Q DEALLOCATE s || Q SET DateStyle = 'SQL, MDY'
< 1 Z:I || 1 C:BEGIN Z:T || C:DEALLOCATE Z:T || C:SET Z:T
> C nowhere | Q COMMIT || Q SHOW DateStyle || P s: SELECT 8 | S
< 3 C:COMMIT Z:I || T D:SQL, MDY C:SHOW Z:I || 1 Z:I
a block with a Query behind an Execute
@ since 18
> x SELECT 1 | Q SELECT 2 | Q COMMIT | S
< 1 2 D:1 C:SELECT 1 T D:2 C:SELECT 1 Z:T C:COMMIT Z:I Z:I
> x SELECT 1 | Q SELECT 2 | Q SELECT 3; SELECT 4 | S
< 1 2 D:1 C:SELECT 1 T D:2 C:SELECT 1 Z:T T D:3 C:SELECT 1 T D:4 C:SELECT 1 Z:I Z:I
> x BEGIN | Q SELECT 2 | S || Q SELECT 3 || Q COMMIT
< 1 2 C:BEGIN T D:2 C:SELECT 1 Z:T Z:T || T D:3 C:SELECT 1 Z:T || C:COMMIT Z:I
> x BEGIN | Q SELECT 2 | Q SELECT 1/0 | S || Q ROLLBACK
< 1 2 C:BEGIN T D:2 C:SELECT 1 Z:T E:22012 Z:E Z:E || C:ROLLBACK Z:I
> x SELECT 1 | Q SELECT 2 | x SELECT 3 | S || x SELECT 1 | Q SELECT 2 | P: SELECT 3 | S
< 1 2 D:1 C:SELECT 1 T D:2 C:SELECT 1 Z:T 1 2 D:3 C:SELECT 1 Z:I || 1 2 D:1 C:SELECT 1 T D:2 C:SELECT 1 Z:T 1 Z:I
> x BEGIN | Q SELECT 2 | Q COMMIT AND CHAIN | S || Q COMMIT
< 1 2 C:BEGIN T D:2 C:SELECT 1 Z:T C:COMMIT Z:T Z:T || C:COMMIT Z:I
a Parse of a text that the server has keeps what stands before it
@ since 18
> P n: SELECT 3 | B n | E | S || x INSERT INTO t VALUES (1) | Q SELECT 2 || C n | P n: SELECT 3 | S
< 1 2 D:3 C:SELECT 1 Z:I || 1 2 C:INSERT 0 1 T D:2 C:SELECT 1 Z:T || 3 1 Z:I
> Q SELECT count(*) FROM t
< T D:1 C:SELECT 1 Z:I

# Settings

a RESET behind which a Query ends the unit leads back to the client's own value
@ TimeZone=Asia/Tokyo
> Q BEGIN; COMMIT AND CHAIN || x SET TimeZone = 'Asia/Kolkata' | Q SHOW TimeZone || x RESET TimeZone | Q SELECT 1
< C:BEGIN C:COMMIT Z:T || 1 2 C:SET T D:Asia/Kolkata C:SHOW Z:T || 1 2 C:RESET T D:1 C:SELECT 1 Z:T
> Q SHOW TimeZone || Q COMMIT
< T D:Asia/Tokyo C:SHOW Z:T || C:COMMIT Z:I
a default among other statements comes before what is sent behind it
@ search_path=s1
> Q BEGIN; SET LOCAL search_path TO DEFAULT | Q SET LOCAL search_path = s2 | Q SELECT * FROM place | Q COMMIT
< C:BEGIN C:SET Z:T C:SET Z:T T D:s2 C:SELECT 1 Z:T C:COMMIT Z:I
> Q BEGIN; SET LOCAL search_path TO DEFAULT | Q COMMIT | Q BEGIN; SET LOCAL search_path = s2 | Q SELECT * FROM place | Q COMMIT
< C:BEGIN C:SET Z:T C:COMMIT Z:I C:BEGIN C:SET Z:T T D:s2 C:SELECT 1 Z:T C:COMMIT Z:I
> Q BEGIN; SET LOCAL search_path TO DEFAULT | Q COMMIT || Q SELECT * FROM place
< C:BEGIN C:SET Z:T C:COMMIT Z:I || T D:s1 C:SELECT 1 Z:I
a default for a transaction is the value of the startup
@ DateStyle=German; search_path=s2
> Q BEGIN | Q SET LOCAL DateStyle TO DEFAULT | Q SHOW DateStyle | Q SAVEPOINT a | Q SET LOCAL DateStyle TO DEFAULT
< C:BEGIN Z:T C:SET Z:T T D:German, DMY C:SHOW Z:T C:SAVEPOINT Z:T C:SET Z:T
> Q ROLLBACK TO a | Q SHOW DateStyle | Q COMMIT | Q SHOW DateStyle
< C:ROLLBACK Z:T T D:German, DMY C:SHOW Z:T C:COMMIT Z:I T D:German, DMY C:SHOW Z:I
> x SET search_path = s1 | S | x BEGIN | S | x SET LOCAL search_path TO DEFAULT | S | Q SELECT * FROM place | Q COMMIT | Q SELECT * FROM place
< 1 2 C:SET Z:I 1 2 C:BEGIN Z:T 1 2 C:SET Z:T T D:s2 C:SELECT 1 Z:T C:COMMIT Z:I T D:s1 C:SELECT 1 Z:I
> Q BEGIN | Q RESET search_path | Q SET LOCAL search_path TO DEFAULT | Q SHOW search_path | Q ROLLBACK | Q SELECT * FROM place
< C:BEGIN Z:T C:RESET Z:T C:SET Z:T T D:s2 C:SHOW Z:T C:ROLLBACK Z:I T D:s1 C:SELECT 1 Z:I

# COPY FROM STDIN whose data come with it, before the server has asked for them

in the extended protocol
> x COPY t FROM STDIN | d 1\n | c | S || x COPY t FROM STDIN | c | S || Q SELECT sum(a) FROM t
< 1 2 G C:COPY 1 Z:I || 1 2 G C:COPY 0 Z:I || T D:1 C:SELECT 1 Z:I
> x COPY t FROM STDIN | S | d 1\n | c | S || x COPY t FROM STDIN | S | d 1\n | H | S | d 1\n | S | c | S
< 1 2 G C:COPY 1 Z:I || 1 2 G C:COPY 2 Z:I
> Q SELECT sum(a) FROM t
< T D:4 C:SELECT 1 Z:I
> x COPY t FROM STDIN | d 1\n | f | S || x COPY t FROM STDIN | S | d 1\n | f | S || Q SELECT count(*) FROM t
< 1 2 G E:57014 Z:I || 1 2 G E:57014 Z:I || T D:4 C:SELECT 1 Z:I
in the extended protocol, with bad data
> x COPY t FROM STDIN | d bad\n | d 1\n | c | S || x COPY t FROM STDIN | S | d bad\n | d 1\n | c | S
< 1 2 G E:22P02 Z:I || 1 2 G E:22P02 Z:I
> x COPY t FROM STDIN | d bad\n | c | S | x SELECT 7 | S | Q SELECT 8
< 1 2 G E:22P02 Z:I 1 2 D:7 C:SELECT 1 Z:I T D:8 C:SELECT 1 Z:I
> x INSERT INTO t VALUES (99) | x COPY t FROM STDIN | d bad\n | c | S || Q SELECT count(*) FROM t
< 1 2 C:INSERT 0 1 1 2 G E:22P02 Z:I || T D:0 C:SELECT 1 Z:I
> x COPY t FROM STDIN | d 12345\n * 30000 | c | S || Q SELECT count(*) FROM t
< 1 2 G C:COPY 30000 Z:I || T D:30000 C:SELECT 1 Z:I
> x COPY nothing FROM STDIN | d 1\n | c | S || x COPY nothing FROM STDIN | S | d 1\n | c | S
< 1 2 E:42P01 Z:I || 1 2 E:42P01 Z:I Z:I
several in the extended protocol
> x COPY t FROM STDIN | d 1\n | c | x COPY t FROM STDIN | d 1\n | d 1\n | c | S
< 1 2 G C:COPY 1 1 2 G C:COPY 2 Z:I
> x COPY t FROM STDIN | d 1\n | c | S | x COPY t FROM STDIN | d 1\n | d 1\n | c | S
< 1 2 G C:COPY 1 Z:I 1 2 G C:COPY 2 Z:I
> P copy: COPY t FROM STDIN | B copy | E | d 1\n | c | B copy | E | c | C copy | S
< 1 2 G C:COPY 1 2 G C:COPY 0 3 Z:I
> x COPY (SELECT 5) TO STDOUT | x COPY t FROM STDIN | d 1\n | c | S || Q SELECT count(*) FROM t
< 1 2 H d c C:COPY 1 1 2 G C:COPY 1 Z:I || T D:8 C:SELECT 1 Z:I
by a Query
> Q COPY t FROM STDIN | d 1\n | c || Q COPY t FROM STDIN | c || Q COPY t FROM STDIN | d 1\n | f
< G C:COPY 1 Z:I || G C:COPY 0 Z:I || G E:57014 Z:I
> Q COPY t FROM STDIN | d bad\n | d 1\n | c || Q COPY t FROM STDIN | d bad\n | d 1\n | c | Q SELECT 8
< G E:22P02 Z:I || G E:22P02 Z:I T D:8 C:SELECT 1 Z:I
> Q COPY t FROM STDIN; COPY t FROM STDIN; SELECT 8 | d 1\n | c | d 1\n | d 1\n | c
< G C:COPY 1 G C:COPY 2 T D:8 C:SELECT 1 Z:I
> Q COPY t FROM STDIN | S | d 1\n | S | c | Q SELECT 8
< G C:COPY 1 Z:I T D:8 C:SELECT 1 Z:I
> Q COPY t FROM STDIN | S | d 1\n | c | x SELECT 7 | S | x SELECT 7 | S
< G C:COPY 1 Z:I 1 2 D:7 C:SELECT 1 Z:I 1 2 D:7 C:SELECT 1 Z:I
> Q COPY t FROM STDIN; SELECT 5 | d 1\n | c | S | Q SELECT 3 || Q SELECT sum(a) FROM t
< G C:COPY 1 T D:5 C:SELECT 1 Z:I Z:I T D:3 C:SELECT 1 Z:I || T D:7 C:SELECT 1 Z:I
data that nobody asked for
> d 1\n | c | Q SELECT 8 || x SELECT 7 | d 1\n | c | S
< T D:8 C:SELECT 1 Z:I || 1 2 D:7 C:SELECT 1 Z:I
behind a RESET in its transaction
@ TimeZone=Asia/Tokyo; search_path=public
> Q BEGIN | Q RESET ALL | Q COPY t FROM STDIN | d 1\n | c || Q RESET TimeZone | x COPY t FROM STDIN | d 1\n | c | S
< C:BEGIN Z:T C:RESET Z:T G C:COPY 1 Z:T || C:RESET Z:T 1 2 G C:COPY 1 Z:T
> Q COMMIT
< C:COMMIT Z:I
a Sync behind the line that fails is answered
> Q COPY t FROM STDIN || d bad\n | S || Q BEGIN || x COPY t FROM STDIN | H || d bad\n | S || Q ROLLBACK
< G || E:22P02 Z:I Z:I || C:BEGIN Z:T || 1 2 G || E:22P02 Z:E || C:ROLLBACK Z:I
answers behind a COPY that fails are its client's
> Q COPY t FROM STDIN | d bad\n | S | Q SELECT 'own' || x COPY t FROM STDIN | d bad\n | S | Q SELECT 'own'
< G E:22P02 Z:I Z:I T D:own C:SELECT 1 Z:I || 1 2 G E:22P02 Z:I T D:own C:SELECT 1 Z:I
> Q COPY t FROM STDIN | f | S | Q SELECT 'own'
< G E:57014 Z:I Z:I T D:own C:SELECT 1 Z:I
> P: INSERT INTO t VALUES (7) | B -> p | E p | S | P: COPY t FROM STDIN | B -> p | E p | S | d bad\n | S | Q SELECT 'own'
< 1 2 C:INSERT 0 1 Z:I 1 2 G E:22P02 Z:I T D:own C:SELECT 1 Z:I
> Q COPY t FROM STDIN; COPY t FROM STDIN | d 1\n | c | d bad\n | S | Q SELECT 'own'
< G C:COPY 1 G E:22P02 Z:I Z:I T D:own C:SELECT 1 Z:I

# Where PostgreSQL closes the connection, the pooler ends the COPY

another message within a COPY ends it
> P s: SELECT 1 | S || x COPY t FROM STDIN | Q SELECT 8 | S || x COPY t FROM STDIN | B missing | S || P y: SELECT 1 | S
~ 1 Z:I || 1 2 G E:57014 Z:I || 1 2 G E:57014 Z:I || 1 Z:I
> Q COPY t FROM STDIN || Q DEALLOCATE s || Q COPY t FROM STDIN | C x | S | Q SELECT 'goes on'
~ G || E:57014 Z:I C:DEALLOCATE Z:I || G E:57014 Z:I 3 Z:I T D:goes on C:SELECT 1 Z:I
> Q COPY t FROM STDIN || d 1\n | P z: SELECT 1 | S | Q SELECT 'goes on' || Q SELECT count(*) FROM t
~ G || E:57014 Z:I 1 Z:I T D:goes on C:SELECT 1 Z:I || T D:0 C:SELECT 1 Z:I
a message that waits for the end of a COPY ends the COPY
> P x: SELECT 1 | S | Q COPY t FROM STDIN; DISCARD ALL | B x | E | S | Q SELECT 'goes on'
~ 1 Z:I G E:57014 Z:I 2 D:1 C:SELECT 1 Z:I T D:goes on C:SELECT 1 Z:I
> Q COPY t FROM STDIN; COPY t FROM STDIN | C x | c | S | Q SELECT 'goes on'
~ G E:57014 Z:I 3 Z:I T D:goes on C:SELECT 1 Z:I
> Q COPY t FROM STDIN; COMMIT | Q SELECT 1 | Q SELECT 'goes on'
~ G E:57014 Z:I T D:1 C:SELECT 1 Z:I T D:goes on C:SELECT 1 Z:I

# Where PostgreSQL 18 breaks the session of a client (XX000), the pooler gives it another

a unit that ends its client's own block loses nothing behind it
@ since 18
> Q BEGIN || Q SELECT 8 || x COMMIT | x INSERT INTO t VALUES (1) | Q SELECT 2 | S
~ C:BEGIN Z:T || T D:8 C:SELECT 1 Z:T || 1 2 C:COMMIT 1 2 C:INSERT 0 1 T D:2 C:SELECT 1 Z:T Z:I
> Q BEGIN || Q SELECT 1/0 || x ROLLBACK | x INSERT INTO t VALUES (2) | Q SELECT 2 | S
~ C:BEGIN Z:T || E:22012 Z:E || 1 2 C:ROLLBACK 1 2 C:INSERT 0 1 T D:2 C:SELECT 1 Z:T Z:I
b> Q SELECT sum(a) FROM t
~ T D:3 C:SELECT 1 Z:I
what stands behind an Execute without a Sync is committed
@ since 18
> x SET my.block = 'kept' | Q SELECT 2 | S || Q SELECT current_setting('my.block', true)
~ 1 2 C:SET T D:2 C:SELECT 1 Z:T Z:I || T D:kept C:SELECT 1 Z:I
b> Q BEGIN || Q ROLLBACK
~ C:BEGIN Z:T || C:ROLLBACK Z:I
> x INSERT INTO t VALUES (1) | F | S
~ 1 2 C:INSERT 0 1 V Z:T Z:I
b> Q SELECT sum(a) FROM t || Q BEGIN || Q ROLLBACK
~ T D:1 C:SELECT 1 Z:I || C:BEGIN Z:T || C:ROLLBACK Z:I
"""
ROWS = {row.title: row for row in script.rows(TABLE)}
GROUND = """
DROP SCHEMA IF EXISTS s1, s2 CASCADE; CREATE SCHEMA s1; CREATE SCHEMA s2;
CREATE TABLE s1.place AS SELECT 's1' AS a; CREATE TABLE s2.place AS SELECT 's2' AS a;
DROP TABLE IF EXISTS public.t; CREATE TABLE public.t (a int);
"""
# Where a row runs: the settings of the pooler, and how messages are sent to it.
POOLERS = {
    "PostgreSQL": (None, ["steps"]),
    "pipelining": ({"default_pool_size": 1}, ["steps", "before the pooler reads"]),
    "without": ({"default_pool_size": 1, "pipelining": False}, ["steps", "single bytes"]),
    "one statement": ({"default_pool_size": 1, "max_prepared_statements": 1}, ["at once"]),
    "sessions": ({"default_pool_size": 3, "pool_mode": "session"}, ["steps", "at once"]),
}
LOOK = query("SELECT 'other', current_user, coalesce(current_setting('my.p', true), '')")


@pytest.fixture(scope="module")
def owner(server):
    """A connection of its own to the server, on which the tables were made."""
    with direct(server) as owner:
        assert "E:" not in owner.sql(GROUND)
        yield owner


@pytest.fixture(scope="module", params=POOLERS)
def place(request, server, owner):
    """Opens clients somewhere; a client there that looks at its session; how messages are sent; the pooler."""
    settings, ways = POOLERS[request.param]
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, **settings)) if settings else None

        def connect(**parameters):
            return Raw(pooler.port, **parameters) if pooler else direct(server, **parameters)

        other = stack.enter_context(connect())
        other.ask(LOOK)
        if settings and "pool_mode" not in settings:
            pooler.wait_for_catalog()
        yield connect, other, ways, pooler


@pytest.mark.parametrize("title", ROWS)
def test_messages_are_answered_as_postgresql_answers_them(owner, place, title, major):
    connect, other, ways, pooler = place
    row = ROWS[title]
    if (row.of_pooler and pooler is None) or major < row.since:
        return
    for way in ways if len(row.clients) == 1 else ["steps"]:
        if row.in_steps and way != "steps":
            continue
        owner.sql("TRUNCATE public.t")
        with contextlib.ExitStack() as stack:
            clients = {name: stack.enter_context(connect(**row.parameters)) for name in row.clients}
            if way == "before the pooler reads":
                with pooler.frozen():
                    clients["a"].send(*(part for step in row.steps for part in step.messages))
            elif way == "at once":
                clients["a"].send(*(part for step in row.steps for part in step.messages))
            for step in row.steps:
                client = clients[step.client]
                if way == "steps":
                    client.send(*step.messages)
                elif way == "single bytes":
                    for byte in b"".join(step.messages)[:SINGLE]:
                        client.send(bytes([byte]))
                    client.send(b"".join(step.messages)[SINGLE:])
                script.expect(client, step.answer)
            for client in clients.values():
                client.send(SYNC)
                script.expect(client, "Z:I")
        other.send(LOOK)
        script.expect(other, "T D:other|postgres| C:SELECT 1 Z:I")


# So many bytes of a step come one by one.
SINGLE = 1000


def test_a_row_with_a_wrong_answer_fails(server):
    row = script.rows("a wrong row\n> Q SELECT 1 || Q SELECT 2\n< T D:1 C:SELECT 1 Z:I || T D:3 C:SELECT 1 Z:I")[0]
    with direct(server) as client:
        for step, right in zip(row.steps, (True, False), strict=True):
            client.send(*step.messages)
            with contextlib.nullcontext() if right else pytest.raises(AssertionError, match="'T D:2', wanted"):
                script.expect(client, step.answer)
