"""Authorities and certificates of one's own, made by the command `openssl`."""

import dataclasses
import subprocess
import textwrap
from pathlib import Path

from devkit import Problem

CONFIGURATION = """
    [ca]
    default_ca = here
    [here]
    dir = {folder}
    database = {folder}/index
    new_certs_dir = {folder}
    rand_serial = yes
    certificate = {folder}/ca.crt
    private_key = {folder}/ca.key
    default_md = sha256
    policy = any
    unique_subject = no
    [any]
    commonName = supplied
    [req]
    distinguished_name = name
    [name]
    [authority]
    basicConstraints = critical, CA:TRUE
    keyUsage = critical, keyCertSign, cRLSign
"""
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


@dataclasses.dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """An authority in a folder. `root` is what trusts it."""

    def __init__(self, folder, name="Howdah's test authority"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.root = self.folder / "ca.crt"
        self.configuration = self.folder / "ca.cnf"
        self.configuration.write_text(textwrap.dedent(CONFIGURATION.format(folder=self.folder)))
        (self.folder / "index").touch()
        openssl(
            "req", "-x509", *NEW_KEY, "-keyout", self.folder / "ca.key", "-out", self.root, "-days", "30",
            "-subj", f"/CN={name}", "-config", self.configuration, "-extensions", "authority",
        )  # fmt: skip
        self._made = 0

    def issue(self, name, alternatives="", begin="-1d", end=None, version=3):
        """A certificate for the common name `name` and alternative names as OpenSSL writes them (`IP:127.0.0.1`).

        `begin` and `end` are times as `20200101000000Z`. One of version 1 has no extensions at all.
        """
        self._made += 1
        pair = Pair(self.folder / f"{self._made}.crt", self.folder / f"{self._made}.key")
        request = self.folder / f"{self._made}.csr"
        openssl(
            "req", *NEW_KEY, "-keyout", pair.key, "-out", request, "-subj", f"/CN={name}",
            "-config", self.configuration,
        )  # fmt: skip
        extensions = self.folder / f"{self._made}.ext"
        lines = ["basicConstraints = CA:FALSE"] if version == 3 else []
        extensions.write_text("\n".join([*lines, f"subjectAltName = {alternatives}" if alternatives else ""]) + "\n")
        times = ["-startdate", begin, "-enddate", end] if end else ["-days", "10"]
        openssl(
            "ca", "-batch", "-notext", "-config", self.configuration, "-in", request,
            "-out", pair.cert, "-extfile", extensions, *times,
        )  # fmt: skip
        return pair


def self_signed_by_pss(folder, name="localhost"):
    """A certificate that RSASSA-PSS has signed: the hash of its signature stands in the parameters."""
    pair = Pair(Path(folder) / "pss.crt", Path(folder) / "pss.key")
    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha384", "-sigopt", "rsa_padding_mode:pss",
        "-subj", f"/CN={name}", "-days", "10", "-keyout", pair.key, "-out", pair.cert,
    )  # fmt: skip
    return pair


def openssl(*arguments):
    """Runs the command `openssl`."""
    try:
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Problem("these tests make certificates by the command openssl, which is not installed") from None
    if done.returncode != 0:
        raise Problem(f"openssl {arguments[0]}: {done.stderr.strip()}")
