"""Addresses and settings of rendezvous as text."""

from __future__ import annotations

import ipaddress
import re
import socket

__all__ = ["parse_rendezvous_endpoint"]


def _parse_rendezvous_config(config_str):
    """``key=value,…`` as a dictionary.

    Raises:
        ValueError: A key is empty or a value absent.
    """
    config = {}
    for pair in filter(None, config_str.strip().split(",")):
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key:
            raise ValueError(
                "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>."
            )
        if not value:
            raise ValueError(f"The rendezvous configuration option '{key}' must have a value specified.")
        config[key] = value
    return config


def parse_rendezvous_endpoint(endpoint, default_port):
    """``host:port``, of which both may be absent, as a pair.

    Raises:
        ValueError: It is not of this form.
    """
    endpoint = (endpoint or "").strip()
    if not endpoint:
        return "localhost", default_port
    host, colon, port = endpoint, "", ""
    if endpoint.count(":") == 1 or endpoint.startswith("["):
        found = re.fullmatch(r"\[(.*)\](?::(.*))?", endpoint)
        if found:
            host, colon, port = found[1], ":" if found[2] is not None else "", found[2] or ""
        else:
            host, colon, port = endpoint.partition(":")
    if colon and not (port.isdigit() and int(port) < 2**16):
        raise ValueError(
            f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 and 65536."
        )
    if not re.fullmatch(r"[\w\.:-]+", host):
        raise ValueError(
            f"The hostname of the rendezvous endpoint '{endpoint}' must be a dot-separated list of labels, an "
            "IPv4 address, or an IPv6 address."
        )
    return host, int(port) if colon else default_port


def _matches_machine_hostname(host):
    """Whether a name or address is this machine's."""
    if host == "localhost":
        return True
    try:
        if ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        if host in (socket.gethostname(), socket.getfqdn()):
            return True
    return bool(_addresses(host) & (_addresses(socket.gethostname()) | _addresses(socket.getfqdn())))


def _addresses(host):
    try:
        return {each[4][0] for each in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
    except OSError:
        return set()
