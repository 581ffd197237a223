import"./c.AGZDP6BO.js";import"./c.RXNPESI4.js";import"./c.AK5I4GWF.js";import"./c.CTOXLRC2.js";import"./c.F4PAHGT7.js";import"./c.NIMKLZQK.js";import"./c.GXBYSAC4.js";import"./c.K3RACSUY.js";
