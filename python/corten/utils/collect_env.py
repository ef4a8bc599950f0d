"""What bug reports tell of a machine."""

from __future__ import annotations

__all__ = ["get_pretty_env_info", "main"]


def get_pretty_env_info():
    """A text about the package and the machine."""
    from corten._doctor import report

    return "\n".join(f"{subject}: {found}" for subject, found in report())


def main():
    """Prints it."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
