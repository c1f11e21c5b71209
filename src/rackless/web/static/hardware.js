// What a server is made of: its disks, and its network cards with what passes at them.

import { complain, toast } from "./ask.js";
import { bytes, facts, h, save, show, table } from "./dom.js";
import { Failure, place, store } from "./store.js";

const SECONDS = 10;

export function hardware(element, found, name) {
  const { hardware: it, disks, host } = found;
  const inspected = host?.status?.hardware?.storage ?? [];
  const seconds = h("input", { type: "number", min: 1, max: 120, value: SECONDS, "aria-label": "Seconds of a recording" });
  show(element,
    facts([["CPUs", it.vcpus], ["Memory", `${it.memory_mib} MiB`], ["Firmware", it.firmware + (it.secure_boot ? ", Secure Boot" : "") + (it.tpm ? ", TPM" : "")],
      ["Name", it.fqdn], ["UUID", h("code", {}, it.uuid)]]),
    h("h3", { class: "kind" }, "Disks"),
    table("Disks", ["Disk", "Size", "On this computer", "As inspected"], disks.map((disk, number) => [h("span", { title: disk.file }, disk.file.split("/").pop()), bytes(disk.bytes),
      disk.used === null ? "not known" : bytes(disk.used), inspected[number] ? [inspected[number].name, inspected[number].model, inspected[number].serialNumber].filter(Boolean).join(" ") : "–"])),
    h("h3", { class: "kind" }, "Network cards"),
    table("Network cards", ["Network", "Packets", "Address", "MAC", "Bridge"], it.nics.map((nic) => [nic.network,
      h("button", { type: "button", disabled: store.readOnly, "aria-label": `Capture packets in ${nic.network}`, click: (event) => capture(event.target, name, nic.network, Number(seconds.value) || SECONDS) }, "Capture"),
      h("code", {}, nic.address), h("code", {}, nic.mac), nic.bridge])),
    h("p", { class: "quiet" }, "A recording takes ", seconds, " s, has at most 16 MiB, and is for Wireshark or tcpdump."));
}

async function capture(button, name, network, seconds) {
  const title = button.textContent;
  button.disabled = true;
  let left = seconds;
  button.textContent = `${left} s`;
  const timer = setInterval(() => { button.textContent = --left > 0 ? `${left} s` : "…"; }, 1000);
  try {
    const answer = await fetch(place("servers", name, "capture"), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ seconds, network }) });
    if (!answer.ok) throw new Failure(answer.status, (await answer.json()).error);
    const packets = await answer.blob();
    save(packets, `${name}-${network}.pcap`);
    toast(`${name}: ${bytes(packets.size)} of packets in ${network}`);
  } catch (error) {
    complain(error);
  } finally {
    clearInterval(timer);
    button.disabled = false;
    button.textContent = title;
  }
}
