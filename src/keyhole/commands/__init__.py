"""One file for each command. They parse and print; they compute nothing."""

import click


class Group(click.Group):
    """A group of commands that suggests a name near a mistyped one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; the message about an unknown one names the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            message = error.format_message()
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near or "id you mean" in message:
                raise
            raise click.UsageError(f"{message} Did you mean '{near[0]}'?", ctx) from None
