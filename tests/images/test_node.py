from rackless.images.node import syslinux_config


def test_a_bios_starts_the_same_kernel_with_the_same_options_as_uefi() -> None:
    entry = "title Node\nlinux /vmlinuz\ninitrd /initrd.img\noptions root=LABEL=x rw  quiet\n"
    assert syslinux_config(entry) == (
        "SERIAL 0\nDEFAULT node\nLABEL node\n  LINUX /vmlinuz\n  INITRD /initrd.img\n  APPEND root=LABEL=x rw  quiet\n"
    )
