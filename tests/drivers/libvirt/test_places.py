from dataclasses import replace
from pathlib import Path

from rackless.drivers.libvirt.places import LibvirtPlaces
from tests.drivers.libvirt.test_xml import server

PLACES = LibvirtPlaces(
    {Path("/home/me/lab/disks"): Path("/shown/disks"), Path("/home/me/lab/media"): Path("/shown/media")}
)


def test_qemu_is_told_paths_that_it_gets_to_and_everybody_else_sees_their_own() -> None:
    box = replace(server(), nvram=Path("/home/me/lab/disks/x.nvram"))
    assert PLACES.of(box) == replace(box, nvram=Path("/shown/disks/x.nvram"))
    assert PLACES.outside(Path("/shown/media/x.iso")) == Path("/home/me/lab/media/x.iso")


def test_what_lies_elsewhere_stays_where_it_is() -> None:
    for path in (Path("/home/me/lab/disks"), Path("/home/me/lab/disks/sub/x"), Path("/srv/x.iso")):
        assert PLACES.inside(path) == path == PLACES.outside(path)
    assert LibvirtPlaces().of(server()) == server()
