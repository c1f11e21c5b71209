"""Ironic's configuration as a value, and `ironic.conf` rendered from it. Pure; `service` writes the files.

One process (API and conductor), SQLite, no message bus, no Keystone: HTTP basic authentication and TLS on the API. The
agent needs no account: the calls it makes are the few that Ironic leaves open. It learns to trust the lab's CA from the
boot ISO, into which Ironic puts `api_ca_file`, or from the ramdisk itself, where it is booted over the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rackless.ports.ironic import IronicSite
from rackless.spec.discover import Discover

KERNEL_PARAMS = (
    "nofb",
    "console=ttyS0",
    "net.ifnames=0",
    "mitigations=off",
    # its logs are on the console already
    "ipa-inspection-collectors=default",
    # for the certificate that it makes at each start and needs for minutes; the default, p384, is several times slower
    "ipa-tls-certificate-curve=p256",
    # The agent asks nine times more by itself, a minute each when the image's server hangs; a host is tried again anyway.
    "ipa-image-download-connection-retries=2",
)

KNOWN_WITHIN = 86_400
"""Seconds for which the agent of a discovered server asks Ironic whether it is enrolled; then it reports its hardware again."""

GRUB_TEMPLATE = """\
set default=0
set timeout=0

menuentry "deploy ramdisk" {
    linux {{ linux }} {{ kernel_params }}
    initrd {{ initrd }}
}
"""
"""The menu of a boot ISO; Ironic fills in the braces. No time is spent on choosing."""


DISCOVER = "discover"
"""Prefix of the boot files for discovered servers."""


@dataclass(frozen=True, slots=True)
class IronicConfig(IronicSite):
    """Ironic's settings: addresses, folders, credentials, timeouts."""

    port: int = 6385
    kernel_params: tuple[str, ...] = KERNEL_PARAMS
    clean: bool = True
    """Wipe the disks' metadata before a host is given away, and after it is taken back."""
    ipmi: bool = True
    """Whether hosts with IPMI alone are taken. Where `ipmitool` is missing Ironic looks for it again and again as it starts."""
    isolinux: Path = Path("/usr/lib/ISOLINUX/isolinux.bin")
    ldlinux: Path = Path("/usr/lib/syslinux/modules/bios/ldlinux.c32")
    """Of a boot ISO for a BIOS; where Debian keeps them."""
    heartbeat_timeout: int = 600
    callback_timeout: int = 900
    """Seconds until an agent that does not call counts as lost; emulated servers are slow."""

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @property
    def conf(self) -> Path:
        return self.state / "ironic.conf"

    @property
    def grub_template(self) -> Path:
        return self.state / "grub.template"

    @property
    def htpasswd(self) -> Path:
        return self.state / "htpasswd"

    @property
    def database(self) -> Path:
        return self.state / "ironic.sqlite"

    @property
    def directories(self) -> tuple[Path, ...]:
        """What must exist before Ironic starts."""
        names = ("tmp", "lock", "certificates", "deploy-logs", "images", "master", "tftp", "tftp-master", "iso-master")
        return (self.state, *(self.state / name for name in names), self.http_root)

    @property
    def reports(self) -> str:
        """The URL at which an agent reports its inspection."""
        return f"{self.url}/v1/continue_inspection"

    @property
    def discover_script(self) -> str:
        """The iPXE script for a server that Ironic does not know: it boots the agent, which reports the hardware and then waits
        to be enrolled."""
        asks = self.discover is Discover.MDNS  # then Ironic's answer also tells where reports go
        told = (
            ("ipa-api-url=mdns",)
            if asks
            else (f"ipa-api-url={self.url}", f"ipa-inspection-callback-url={self.reports}")
        )
        params = (*self.kernel_params, *told, f"ipa-lookup-timeout={KNOWN_WITHIN}", "BOOTIF=${mac}")
        return (
            "#!ipxe\n"
            f"kernel {self.http_url}/{DISCOVER}.kernel {' '.join(params)} initrd={DISCOVER}.initramfs || goto failed\n"
            f"initrd --name {DISCOVER}.initramfs {self.http_url}/{DISCOVER}.initramfs || goto failed\n"
            "boot\n:failed\nprompt --timeout 30000\nreboot\n"
        )

    def render(self) -> str:
        sections = _sections(self)
        return "\n".join(
            f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
            for section, options in sections.items()
        )


def _sections(config: IronicConfig) -> dict[str, dict[str, object]]:
    sections = _settled(config)
    if config.discover is not Discover.OFF:
        # the driver is a placeholder: whoever describes the server says how its BMC is reached
        sections["auto_discovery"] = {"enabled": True, "driver": "redfish"}
        sections["pxe"]["ipxe_fallback_script"] = f"{DISCOVER}.ipxe"
    if config.discover is Discover.MDNS:
        sections["conductor"]["enable_mdns"] = True
        params = f'ipa_inspection_callback_url:"{config.reports}"'
        sections["mdns"] = {"interfaces": config.address, "params": params}
    return sections


def _settled(config: IronicConfig) -> dict[str, dict[str, object]]:
    state = config.state
    params = " ".join(config.kernel_params)
    allowed = sorted({str(path.parent) for path in (config.kernel, config.ramdisk, config.esp)} | {str(state)})
    return {
        "DEFAULT": {
            "auth_strategy": "http_basic",
            "http_basic_auth_user_file": config.htpasswd,
            "rpc_transport": "none",
            "host": "rackless",
            "my_ip": config.address,
            "use_stderr": True,
            "log_options": False,
            "graceful_shutdown_timeout": 8,
            "state_path": state,
            "tempdir": state / "tmp",
            "grub_config_path": "/boot/grub/grub.cfg",
            "grub_config_template": config.grub_template,
            "isolinux_bin": config.isolinux,
            "ldlinux_c32": config.ldlinux,
            "default_resource_class": "baremetal",
            "webserver_verify_ca": config.ca,
            **_interfaces(ipmi=config.ipmi),
        },
        "agent": {
            "api_ca_file": config.ca,
            "certificates_path": state / "certificates",
            "require_tls": True,
            "image_download_source": "http",
            "deploy_logs_collect": "on_failure",
            "deploy_logs_local_path": state / "deploy-logs",
            "command_timeout": 60,
            "post_deploy_get_power_state_retry_interval": 1,
            "post_deploy_get_power_state_retries": 30,
        },
        "api": {
            "host_ip": config.address,
            "port": config.port,
            "public_endpoint": config.url,
            # An agent calls every third to two thirds of this. A call that finds its node locked is not heard, and the node
            # waits for the next: with Ironic's 300 s up to three minutes.
            "ramdisk_heartbeat_timeout": 45,
            "enable_ssl_api": True,
            "cert_file": config.certificate,
            "key_file": config.key,
        },
        "conductor": {
            "automated_clean": config.clean,
            "deploy_kernel": f"file://{config.kernel}",
            "deploy_ramdisk": f"file://{config.ramdisk}",
            "bootloader": f"file://{config.esp}",
            "file_url_allowed_paths": ",".join(allowed),
            "heartbeat_timeout": config.heartbeat_timeout,
            "deploy_callback_timeout": config.callback_timeout,
            "inspect_wait_timeout": config.callback_timeout,
            "clean_callback_timeout": config.callback_timeout,
            "sync_power_state_interval": 30,
            # What a host's power should be is written in its record; Ironic only says what it sees.
            "force_power_state_during_sync": False,
            "power_failure_recovery_interval": 30,
            # A failed deploy powers the server off, and Ironic then forgets its last error; its history does not.
            "node_history": True,
            "node_history_max_entries": 20,
            # A server that runs the agent goes on without Ironic; there is little to wait for.
            "graceful_shutdown_timeout": 3,
        },
        "database": {"connection": f"sqlite:///{config.database}", "sqlite_synchronous": False},
        "deploy": {
            "http_url": config.http_url,
            "http_root": config.http_root,
            "iso_master_path": state / "iso-master",
            "erase_devices_priority": 0,
            "erase_devices_metadata_priority": 10,
            "default_boot_mode": "uefi",
            "fast_track": True,
        },
        "dhcp": {"dhcp_provider": "none"},
        "inspector": {"require_managed_boot": True, "add_ports": "all", "keep_ports": "present"},
        # The BMCs of a lab bear being asked more often than every 5 s. Ironic divides by this: 0 is too little.
        "ipmi": {"min_command_interval": 1, "command_retry_timeout": 30},
        "nova": {"send_power_notifications": False},
        "oslo_concurrency": {"lock_path": state / "lock"},
        "oslo_messaging_notifications": {"driver": "noop"},
        "pxe": {
            "tftp_root": state / "tftp",
            "tftp_master_path": state / "tftp-master",
            "instance_master_path": state / "master",
            "images_path": state / "images",
            "kernel_append_params": params,
        },
        "redfish": {
            "use_swift": False,
            "kernel_append_params": params,
            "boot_mode_config_timeout": 0,
            # Ironic's Redfish library tries ten times itself, 3 s apart: half a minute for one that is away is enough.
            "connection_attempts": 1,
            # How often Ironic looks whether a server that was started to read its settings has done so; its own is 60 s.
            "firmware_update_status_interval": 5,
        },
        "service_catalog": {"endpoint_override": config.url, "auth_type": "none"},
    }


_CHOSEN = ("bios", "boot", "management", "power", "vendor")


def _interfaces(*, ipmi: bool) -> dict[str, object]:
    """The ways to reach a server that this Ironic knows; the first of each kind is the default."""
    enabled = {
        "bios": "redfish,no-bios",
        "boot": "redfish-virtual-media,ipxe",
        "console": "no-console",
        "deploy": "direct,ramdisk,custom-agent",
        "firmware": "no-firmware",
        "inspect": "agent,redfish,no-inspect",
        "management": "redfish,ipmitool",
        "network": "noop",
        "power": "redfish,ipmitool",
        "raid": "no-raid",
        "rescue": "no-rescue",
        "storage": "noop",
        "vendor": "redfish,no-vendor",
    }
    if not ipmi:
        enabled = {kind: names.removesuffix(",ipmitool") for kind, names in enabled.items()}
    return {
        "enabled_hardware_types": "redfish,ipmi" if ipmi else "redfish",
        **{f"enabled_{kind}_interfaces": names for kind, names in enabled.items()},
        # the others depend on the hardware type: it has a best one, or every node says which it wants
        **{
            f"default_{kind}_interface": names.partition(",")[0]
            for kind, names in enabled.items()
            if kind not in _CHOSEN
        },
    }
