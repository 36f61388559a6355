"""A report in a real browser: it shows what there is, asks nobody for anything, and can be used
with a mouse, a keyboard or a screen reader, on a phone and on paper."""

from __future__ import annotations

import pytest

from colonnade.cli import main
from tests.browser import SCHEMES, SIZES, browser, faults, opened, reachable, shot, tabbed, why_not
from tests.pages import ENDS, MARKUP, hostile, trained

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "none"),
    pytest.mark.xdist_group("browser"),
]
READY = "#timeline [data-detail]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two methods with two seeds each, and one that weighs stale rows."""
    out = tmp_path_factory.mktemp("runs")
    for method, seed in (("fedsgd", 0), ("fedsgd", 1), ("pasta", 0), ("pasta", 1)):
        trained(out / f"{method}-{seed}", method, seed)
    trained(out / "celu", "celu:w=3")
    return out


@pytest.fixture(scope="module")
def report(folder):
    """The report on all of them."""
    names = ("fedsgd-0", "fedsgd-1", "pasta-0", "pasta-1", "celu")
    file = folder / "all.html"
    assert main(["report", *(str(folder / name) for name in names), "--out", str(file)]) == 0
    return file.as_uri()


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


def drawn(page):
    """For every chart that shows: its name, how many colours its canvas has, and its points."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.chart')].filter(box => box.offsetParent).map(box => {
             const canvas = box.querySelector('canvas'), pen = canvas.getContext('2d');
             const dots = new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
             const series = echarts.getInstanceByDom(box).getOption().series;
             return {name: box.closest('section').id, colours: new Set(dots).size,
                     points: series.reduce((sum, each) => sum + each.data.length, 0)};
           })"""  # noqa: E501
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_whole_and_usable_at_any_size_in_any_light(chromium, report, size, scheme):
    with opened(chromium, report, size=size, scheme=scheme, ready=READY) as page:
        charts = {each["name"]: each for each in drawn(page)}
        assert charts.keys() == {"curves", "timeline", "time", "bytes", "staleness"}
        assert all(each["colours"] > 5 and each["points"] for each in charts.values()), charts
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, "the page is wider than the screen"
        shot(page, f"report-{size}-{scheme}")
        assert not faults(page)


def test_the_headline_says_what_was_gained_and_against_what(chromium, report):
    with opened(chromium, report, ready=READY) as page:
        title = page.locator("h1").inner_text()
        assert "accuracy" in title and "fedsgd" in title
        assert "colonnade race" in page.locator(".notes").inner_text()
        assert page.locator("#comparison tbody tr").count() == 3


def hover(page, section, across, down):
    box = page.locator(f"#{section} .chart")
    box.scroll_into_view_if_needed()
    place = box.bounding_box()
    for step in (0, 1):
        page.mouse.move(place["x"] + place["width"] * across + step, place["y"] + down)


def test_hovering_the_timeline_tells_kind_round_staleness_and_bytes(chromium, report):
    with opened(chromium, report, ready=READY) as page:
        page.get_by_label("Show the first rounds").click()
        page.wait_for_selector("[data-detail=spans]")
        seen = ""
        for down in (25, 55, 118):
            for across in (0.35, 0.5, 0.65, 0.8):
                hover(page, "timeline", across, down)
                seen += page.locator("#timeline .tip").inner_text()
        for word in ("what", "round", "staleness", "bytes", "message", "took"):
            assert word in seen, seen


def zoomed(page):
    return page.evaluate(
        "() => { const zoom = echarts.getInstanceByDom(document.querySelector('#timeline .chart'))"
        ".getOption().dataZoom[0]; return zoom.end - zoom.start; }"
    )


def test_the_timeline_zooms_by_buttons_keys_and_wheel(chromium, report):
    with opened(chromium, report, ready=READY) as page:
        assert zoomed(page) == 100
        assert page.locator("[data-detail]").get_attribute("data-detail") == "shares"
        assert "aggregated" in page.locator("[data-detail]").inner_text()
        page.get_by_label("Zoom in").click()
        assert zoomed(page) == pytest.approx(50)
        page.locator("#timeline .chart").focus()
        page.keyboard.press("+")
        page.keyboard.press("ArrowRight")
        assert zoomed(page) == pytest.approx(25)
        hover(page, "timeline", 0.5, 40)
        page.keyboard.down("Control")
        page.mouse.wheel(0, -400)
        page.keyboard.up("Control")
        page.wait_for_function("() => true")
        assert zoomed(page) < 25
        for _ in range(6):
            page.get_by_label("Zoom in").click()
        page.wait_for_selector("[data-detail=spans]")
        page.get_by_label("Next span of the lane").click()
        assert "took" in page.locator("#timeline output").inner_text()
        page.get_by_label("Show the whole run").click()
        assert zoomed(page) == 100


def test_curves_switch_from_time_to_rounds_to_bytes_with_bands_over_seeds(chromium, report):
    ends = {}
    with opened(chromium, report, ready=READY) as page:
        for title in ("Time", "Rounds", "Bytes"):
            page.locator("#curves").get_by_role("radio", name=title).check()
            series = page.evaluate(
                "() => echarts.getInstanceByDom(document.querySelector('#curves .chart'))"
                ".getOption().series.map(each => [each.id, each.type, each.data])"
            )
            assert {"band:0", "mean:0", "mean:1"} <= {each[0] for each in series}
            ends[title] = max(point[0] for each in series for point in each[2])
        hover(page, "curves", 0.5, 200)
        assert "Bytes" in page.locator("#curves .tip").inner_text()
    assert ends["Time"] < ends["Rounds"] < ends["Bytes"]


def test_another_run_can_be_looked_into(chromium, report):
    with opened(chromium, report, ready=READY) as page:
        assert page.locator("#weights").is_hidden()
        page.locator(".picker select").select_option(label="celu:w=3")
        page.locator("#weights").wait_for(state="visible")
        assert "workset" not in page.locator("#job").inner_text()
        assert "cosine" in page.locator("#job").inner_text()
        assert {"weights", "timeline"} <= {each["name"] for each in drawn(page)}


def test_the_keyboard_reaches_everything(chromium, report):
    with opened(chromium, report, ready=READY) as page:
        reached = tabbed(page)
        missing = {what for mark, what in reachable(page).items() if mark not in reached}
        assert len(reached) > 30 and not missing, missing


def test_every_chart_has_its_data_as_a_table_and_as_a_file(chromium, report):
    with opened(chromium, report, ready=READY) as page:
        for section in ("curves", "timeline", "time", "bytes", "staleness"):
            details = page.locator(f"#{section} > details, #{section} > div > details").last
            details.locator("summary").click()
            details.locator("tbody tr").nth(2).wait_for()
        with page.expect_download() as found:
            page.locator("#bytes details button").click()
        lines = found.value.path().read_text().splitlines()
        assert lines[0] == "from,to,message,purpose,messages,bytes" and len(lines) > 3


def test_on_paper_there_are_charts_and_no_buttons(chromium, report):
    with opened(chromium, report, scheme="dark", ready=READY) as page:
        page.emulate_media(media="print")
        assert (
            page.locator("nav").is_hidden() and page.locator("#timeline button").first.is_hidden()
        )
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        assert all(each["colours"] > 5 for each in drawn(page))
        assert page.pdf().startswith(b"%PDF")


def test_newer_facts_bring_a_page_up_to_date_where_it_stands(chromium, report):
    with opened(chromium, report, ready=READY) as page:
        before, after, same, zoom = page.evaluate(
            """async () => {
                 const until = async (isSo) => {
                   for (let tries = 0; !isSo(); tries += 1) {
                     if (tries === 500) throw new Error(`still not so: ${isSo}`);
                     await new Promise(done => setTimeout(done, 20));
                   }
                 };
                 const facts = JSON.parse(document.getElementById('facts').textContent);
                 const element = document.createElement('div'), early = structuredClone(facts.runs[2]);
                 document.body.append(element);
                 for (const name of Object.keys(early.history)) early.history[name] = early.history[name].slice(0, 2);
                 Colonnade.show(element, early);
                 const box = element.querySelector('#curves .chart'), count = () =>
                   echarts.getInstanceByDom(box).getOption().series[0].data.length;
                 const first = count(), canvas = box.querySelector('canvas');
                 // The timeline is unpacked before it is drawn, and says what it shows when it is.
                 const drawn = () => element.querySelector('#timeline [data-detail]');
                 await until(drawn);
                 element.querySelector('[aria-label="Zoom in"]').click();
                 delete drawn().dataset.detail;
                 Colonnade.show(element, facts.runs[2]);
                 await until(() => drawn() && count() > first);
                 const zoom = echarts.getInstanceByDom(element.querySelector('#timeline .chart')).getOption().dataZoom[0];
                 return [first, count(), canvas === box.querySelector('canvas'), zoom.end - zoom.start];
               }"""  # noqa: E501
        )
    assert before == 2 < after and same and zoom == 50


def test_a_hostile_folder_is_shown_as_text(chromium, folder, tmp_path):
    out = hostile(folder / "pasta-0", tmp_path / "hostile")
    assert main(["report", str(out), "--out", str(tmp_path / "report.html")]) == 0
    with opened(chromium, (tmp_path / "report.html").as_uri(), ready=READY) as page:
        page.get_by_label("Show the first rounds").click()
        for across in (0.3, 0.6, 0.9):
            hover(page, "timeline", across, 25)
            hover(page, "bytes", across, 60)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        page.locator("#bytes tbody tr").first.wait_for()
        text = page.locator("body").inner_text()
        assert MARKUP in text and ENDS in text
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img, main svg, main script").count() == 0
        assert not faults(page)
