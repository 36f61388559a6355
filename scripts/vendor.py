"""Fetch the chart library that reports carry, Apache ECharts, and build the part of it that we use.

    python scripts/vendor.py            # write src/colonnade/page/vendor
    python scripts/vendor.py --check    # build it again, and compare with what is there

Needs npm and a network. Versions are pinned, and what npm fetches must have the hashes below. The
licence and notice of the library go beside the file, and so does `echarts.json`, with the version
and the file's SHA-256, which a test compares with the file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "src" / "colonnade" / "page" / "vendor"
PINNED = {
    "echarts": (
        "6.1.0",
        "sha512-q0yaFPggC9FUdsWH4blavRWFmxdrIodbkoKNAjJudAI6CA9gNPxHtV2RcZNEepZVlk4yvBYkOkbk6HIVpIyHZA==",
    ),
    "zrender": (
        "6.1.0",
        "sha512-oEGMDB6pOP2S6OwRR4PdVv610zrjnA3Bh+JnSG12fYJlBKjtNAoEb5fSUoCOOINlH96I2fU38/A2UpRKs67xYQ==",
    ),
    "tslib": (
        "2.3.0",
        "sha512-N82ooyxVNm6h1riLCoyS9e3fuJ3AMG2zIZs2Gd1ATcSFjSA23Q0fzjjZeh0jbJvWVDZ0cJT8yaNNaaXHzueNjg==",
    ),
    "esbuild": (
        "0.28.2",
        "sha512-HKVLS8dvII+xoKW9kmqxbRKrnWEXfJJr/FZhhJmiqIB0e053QNYFqOBouTMO/k5sID4MvCiUCvv8b9M4h32wIA==",
    ),
}
"""What is built, and what builds it: version, and npm's hash of the package."""
ENTRY = """
import * as echarts from "echarts/core";
import {BarChart, CustomChart, LineChart} from "echarts/charts";
import {AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent,
  TooltipComponent} from "echarts/components";
import {CanvasRenderer} from "echarts/renderers";
echarts.use([BarChart, CustomChart, LineChart, AriaComponent, DataZoomComponent, GridComponent,
  LegendComponent, MarkLineComponent, TooltipComponent, CanvasRenderer]);
export const {init, getInstanceByDom, graphic, version} = echarts;
"""
"""The charts and components that the pages use; a page that needs another adds it here."""
BANNER = (
    "/*! Apache ECharts {version}, with ZRender and tslib, bundled by scripts/vendor.py; "
    "Apache License 2.0, see LICENSE and NOTICE beside this file */"
)


def build(work: Path) -> dict[str, bytes]:
    """The files of the folder, by name, built in an empty folder."""
    wanted = [f"{name}@{version}" for name, (version, _) in PINNED.items()]
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    (work / "package.json").write_text('{"private": true}')
    subprocess.run(["npm", "install", *quiet, "--save-exact", *wanted], cwd=work, check=True)
    locked = json.loads((work / "package-lock.json").read_text())["packages"]
    for name, (version, integrity) in PINNED.items():
        found = locked[f"node_modules/{name}"]
        if (found["version"], found["integrity"]) != (version, integrity):
            sys.exit(f"npm gave another {name} than {version} with {integrity}: {found}")
    (work / "entry.js").write_text(ENTRY)
    version = PINNED["echarts"][0]
    options = ["--bundle", "--minify", "--format=iife", "--global-name=echarts", "--target=es2020"]
    subprocess.run(
        [work / "node_modules" / ".bin" / "esbuild", "entry.js", *options, "--charset=utf8",
         "--legal-comments=none", f"--banner:js={BANNER.format(version=version)}",
         '--define:process.env.NODE_ENV="production"',
         "--outfile=echarts.min.js", "--log-level=warning"],
        cwd=work, check=True,
    )  # fmt: skip
    library = (work / "echarts.min.js").read_bytes()
    about = {
        "name": "Apache ECharts",
        "version": version,
        "licence": "Apache-2.0",
        "packages": {name: own for name, (own, _) in PINNED.items()},
        "sha256": hashlib.sha256(library).hexdigest(),
    }
    package = work / "node_modules" / "echarts"
    zrender = (work / "node_modules" / "zrender" / "LICENSE").read_bytes()
    return {
        "echarts.min.js": library,
        "echarts.json": (json.dumps(about, indent=1) + "\n").encode(),
        "LICENSE": (package / "LICENSE").read_bytes(),
        "LICENSE.zrender": zrender,
        "NOTICE": (package / "NOTICE").read_bytes(),
    }


def main() -> None:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as work:
        files = build(Path(work))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = FOLDER / name
        if not check:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            sys.exit(f"{path} is not what is built from the pinned versions")
        print(f"{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
