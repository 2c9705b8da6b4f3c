//! The password exchanges: RFC 7677's own example, both sides against each other, and what must not pass.

use proptest::prelude::*;
use wire::scram::{Binding, Client, Credential, Secret, Server};
use wire::{Error, md5};

/// Runs one exchange; the client's key as the server learnt it.
fn exchange(credential: Credential, secret: Secret) -> Result<[u8; 32], Error> {
    bound_exchange(credential, secret, Binding::No, Binding::No)
}

/// The same with what either side takes for the channel binding.
fn bound_exchange(
    credential: Credential,
    secret: Secret,
    of_client: Binding<'_>,
    of_server: Binding<'_>,
) -> Result<[u8; 32], Error> {
    let (client, first) = Client::start_bound(credential, "clientnonce", of_client);
    let (server, server_first) = Server::start_bound(secret, &first, "servernonce", of_server)?;
    let (client, proof) = client.proof(&server_first)?;
    let accepted = server.finish(&proof)?;
    client.finish(&accepted.message)?;
    Ok(accepted.client_key)
}

#[test]
fn the_secret_is_the_one_that_postgresql_stores() {
    // The keys that PostgreSQL derives for the password, salt and iterations of the example in RFC 7677, section 3.
    let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let secret = Secret::read(text).unwrap();
    assert_eq!((secret.iterations, secret.salt.len()), (4096, 16));

    use base64::Engine as _;
    let salt = base64::engine::general_purpose::STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let derived = Secret::derive(b"pencil", &salt, 4096);
    assert_eq!(derived.stored_key, secret.stored_key);
    assert_eq!(derived.server_key, secret.server_key);
}

#[test]
fn the_right_password_passes_and_gives_the_clients_key() {
    let secret = Secret::derive(b"pencil", b"sixteen bytes ..", 4096);
    let client_key = exchange(Credential::Password(b"pencil".to_vec()), secret.clone()).unwrap();
    let keys = Credential::Keys { client_key, server_key: secret.server_key };
    assert_eq!(exchange(keys, secret).unwrap(), client_key, "the keys do for a login without the password");
}

#[test]
fn a_wrong_password_fails() {
    let secret = Secret::derive(b"pencil", b"salt", 4096);
    assert_eq!(exchange(Credential::Password(b"pencil2".to_vec()), secret), Err(Error::Verification));
}

#[test]
fn a_bound_exchange_passes_only_over_the_connection_it_is_bound_to() {
    let run = |of_client, of_server| {
        let secret = Secret::derive(b"pencil", b"salt", 2);
        bound_exchange(Credential::Password(b"pencil".to_vec()), secret, of_client, of_server).is_ok()
    };
    let here = Binding::EndPoint(b"hash of a certificate");
    let elsewhere = Binding::EndPoint(b"hash of another");
    for (of_client, of_server, passes) in [
        (here, here, true),
        (here, elsewhere, false),
        (here, Binding::No, false),
        (here, Binding::Declined, false),
        (Binding::No, Binding::Declined, true),
        (Binding::Declined, Binding::No, true),
        // The server offered it, and the client was told that it did not.
        (Binding::Declined, Binding::Declined, false),
        (Binding::No, here, false),
        (Binding::Declined, here, false),
    ] {
        assert_eq!(run(of_client, of_server), passes, "{of_client:?} with {of_server:?}");
    }
}

#[test]
fn a_server_that_does_not_know_the_secret_fails() {
    let mut secret = Secret::derive(b"pencil", b"salt", 4096);
    secret.server_key[0] ^= 1;
    assert_eq!(exchange(Credential::Password(b"pencil".to_vec()), secret), Err(Error::Verification));
}

#[test]
fn a_server_must_keep_the_clients_nonce_and_ask_for_bearable_work() {
    for first in ["r=clientnonce,s=c2FsdA==,i=4096", "r=other,s=c2FsdA==,i=1", "r=clientnonceX,s=c2FsdA==,i=99999999"] {
        let (client, _) = Client::start(Credential::Password(b"x".to_vec()), "clientnonce");
        assert!(client.proof(first.as_bytes()).is_err(), "{first}");
    }
}

#[test]
fn md5_is_as_postgresql_does_it() {
    // SELECT 'md5' || md5('secret' || 'bob')
    assert_eq!(md5::stored("bob", b"secret"), "md521f3163f8f86fa10bdefbfbd502a8f06".to_owned());
    assert!(md5::is_stored(&md5::stored("bob", b"secret")));
    assert!(!md5::is_stored("md5 is not my password, no no no no"));
}

proptest! {
    #[test]
    fn hostile_messages_do_not_pass_and_do_not_panic(first in ".{0,60}", proof in ".{0,60}") {
        let secret = Secret::derive(b"p", b"s", 1);
        if let Ok((server, _)) = Server::start(secret, first.as_bytes(), "n") {
            prop_assert!(server.finish(proof.as_bytes()).is_err());
        }
        let (client, _) = Client::start(Credential::Password(b"p".to_vec()), "c");
        let _ = client.proof(first.as_bytes());
        let _ = Secret::read(&first);
    }

    #[test]
    fn whatever_the_password_the_two_sides_agree(password in prop::collection::vec(any::<u8>(), 0..40)) {
        let secret = Secret::derive(&password, b"salt", 2);
        prop_assert!(exchange(Credential::Password(password), secret).is_ok());
    }
}
