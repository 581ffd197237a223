import"./c.WK4KFXO6.js";import"./c.GRC6Y3EM.js";
