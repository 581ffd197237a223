declare module "pngjs" { export class PNG { width: number; height: number; data: Buffer; static sync: { read(b: Buffer): PNG; write(p: PNG): Buffer } } }
