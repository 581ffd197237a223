import"./c.GYC66TZD.js";import"./c.CTOXLRC2.js";import"./c.F4PAHGT7.js";import"./c.NIMKLZQK.js";import"./c.GXBYSAC4.js";import"./c.K3RACSUY.js";
