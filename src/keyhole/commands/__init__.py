"""One file for each command. They parse and print; they compute nothing."""

import click


class Group(click.Group):
    """A group of commands that suggests a name near a mistyped one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; an unknown one is refused with the nearest name, and so is an option given twice."""
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            message = error.format_message()
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near or "id you mean" in message:
                raise
            raise click.UsageError(f"{message} Did you mean '{near[0]}'?", ctx) from None
        if command is not None and not isinstance(command, click.Group):
            _refuse_twice(ctx, name, command, rest)
        return name, command, rest


LISTS = ("KEYS", "A,B,C")
"""What the help shows for options that take several names in one value."""


def _refuse_twice(ctx: click.Context, name: str | None, command: click.Command, args: list[str]) -> None:
    """Refuse an option of a single value that is given twice, of which click would take the last."""
    with command.context_class(command, info_name=name, parent=ctx) as own:
        try:
            _, _, order = command.make_parser(own).parse_args(list(args))
        except click.UsageError:
            return  # click says so itself
        given = [found for found in order if isinstance(found, click.Option) and not found.multiple]
        for place, option in enumerate(given):
            if option in given[:place] and not option.is_flag:
                how = ", with commas between the names" if option.metavar in LISTS else ""
                raise click.UsageError(f"{option.opts[0]} is given twice: give it once{how}.", own)
