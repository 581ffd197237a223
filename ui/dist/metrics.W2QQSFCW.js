import"./c.BN3P6KTG.js";import"./c.MIA4ZGHU.js";import"./c.Z5Q6FEHQ.js";import"./c.NIMKLZQK.js";import"./c.3KVO7RNL.js";import"./c.TCNNIQG2.js";
