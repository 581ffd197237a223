// The command palette.
export function open() {}
