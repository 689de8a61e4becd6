"""What the command line says of options in the wrong place, and of an index that is not named."""

from __future__ import annotations

import pytest

from catalog_ext.cli.main import main

pytestmark = pytest.mark.usefixtures("working_folder")


@pytest.mark.parametrize("option", ["--index", "--metastore", "--warehouse", "--storage"])
def test_a_global_option_after_the_command(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adopt", option, "x"]) == 2
    assert f"{option} goes before the command: catalog-ext {option} … adopt" in capsys.readouterr().err
    assert main(["adopt", "--indx", "x"]) == 2
    assert "goes before" not in capsys.readouterr().err


def test_adopt_does_not_look_for_the_index_beside_the_warehouse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--warehouse", "elsewhere/wh", "adopt"]) == 2
    assert "catalog-ext --index URL --warehouse 'elsewhere/wh' adopt" in capsys.readouterr().err


def test_none_is_no_metastore_to_belong_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--index", "i.db", "--metastore", "none", "init"]) == 0
    assert main(["--index", "i.db", "--metastore", "none", "adopt"]) == 2
    assert "say so each time: --metastore none" in capsys.readouterr().err
