"""`make docs` builds the documentation's site strictly, with its pictures and a search."""

import re

import pytest

from devkit import Problem, site
from devkit.places import ROOT


def test_the_site_has_the_pages_the_pictures_and_a_search():
    built = site.site()
    front = (built / "index.html").read_text()
    assert (ROOT / "docs" / "system.svg").read_bytes() == (built / "docs" / "system.svg").read_bytes()
    assert 'src="docs/system.svg"' in front
    assert "query_wait_timeout" in (built / "search" / "search_index.json").read_text()
    for page in (ROOT / "docs").glob("**/*.md"):
        assert (built / page.relative_to(ROOT)).with_suffix(".html").exists(), page
    fetched = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', front)
    assert fetched == [], "a reader's browser fetches nothing from elsewhere"


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("[a page](docs/none.md)", "docs/none.md"),
        ("[a heading](docs/design/note.md#none)", "#none"),
        ("[a file](none.txt)", "none.txt"),
    ],
    ids=["page", "anchor", "file"],
)
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path, monkeypatch, page, complaint):
    tree(tmp_path, monkeypatch)
    (tmp_path / "README.md").write_text(f"# Howdah\n\n{page}\n")
    with pytest.raises(Problem, match=re.escape(complaint)):
        site.site()


def test_a_page_without_a_place_in_the_menu_ends_the_build(tmp_path, monkeypatch):
    tree(tmp_path, monkeypatch)
    (tmp_path / "docs" / "forgotten.md").write_text("# Forgotten\n")
    with pytest.raises(Problem, match=r"docs/site\.yml does not have docs/forgotten\.md"):
        site.site()


def tree(folder, monkeypatch):
    """A repository of two pages in place of ours."""
    (folder / "docs" / "design").mkdir(parents=True)
    (folder / "docs" / "design" / "note.md").write_text("# A note\n")
    ours = (ROOT / "docs" / "site.yml").read_text()
    configuration = folder / "docs" / "site.yml"
    configuration.write_text(ours[: ours.index("nav:")] + "nav:\n  - Howdah: README.md\n  - Explanations:\n")
    monkeypatch.setattr(site, "ROOT", folder)
    monkeypatch.setattr(site, "BUILD", folder / "build")
    monkeypatch.setattr(site, "SITE", folder / "build" / "site")
    monkeypatch.setattr(site, "CONFIGURATION", configuration)
